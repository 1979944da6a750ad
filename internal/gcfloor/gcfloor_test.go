package gcfloor

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
)

func TestPercent(t *testing.T) {
	const mib = 1 << 20
	for _, tc := range []struct {
		size, live, roots uint64
		want              int
	}{
		{64 * mib, 0, 0, 1600},              // at the start
		{64 * mib, 8 * mib, 8 * mib, 700},   // 8 + 7*8
		{64 * mib, 8 * mib, 14 * mib, 400},  // 8 + 4*14
		{64 * mib, 32 * mib, 32 * mib, 100}, // just the usual
		{64 * mib, 48 * mib, 48 * mib, 100},
		{64 * mib, 64 * mib, 64 * mib, 100},
		{64 * mib, 1 << 40, 1 << 40, 100},
		{1 << 62, 1, 1, 1<<31 - 1},
		{0, 0, 0, 100},
	} {
		if got := percentFor(tc.size, tc.live, tc.roots); got != tc.want {
			t.Errorf("percentFor(%d, %d, %d) = %d, want %d", tc.size, tc.live, tc.roots, got, tc.want)
		}
	}
}

var sink []byte

// TestFloor checks that a small heap grows to the floor before each collection, that a heap above
// the floor is collected as usual, and that the floor applies again when the heap has become small.
func TestFloor(t *testing.T) {
	const size, total = 64 << 20, 1 << 30
	adjusted := make(chan int, 10_000)
	start(&floor{size: size, adjusted: func(percent int) { adjusted <- percent }})

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range total / (64 << 10) {
		sink = make([]byte, 64<<10)
	}
	runtime.ReadMemStats(&after)
	// Without a floor there is a collection for each 4 MiB.
	if cycles := after.NumGC - before.NumGC; cycles == 0 || cycles > 2*total/size {
		t.Errorf("%d collections while %d MiB were allocated, with a floor of %d MiB", cycles, total>>20, size>>20)
	}

	large := make([]byte, 2*size)
	if percent := settled(adjusted); percent != usualPercent || gogc() != usualPercent {
		t.Errorf("with a live heap above the floor GOGC is %d, and %d in the runtime, want %d", percent, gogc(), usualPercent)
	}
	runtime.KeepAlive(large) // and no longer
	if percent := settled(adjusted); percent < 4*usualPercent || gogc() != percent {
		t.Errorf("with a small live heap again GOGC is %d, and %d in the runtime", percent, gogc())
	}
}

// settled collects until the floor was adjusted to a collection that began after the call, and
// returns the value of GOGC then.
func settled(adjusted <-chan int) (percent int) {
	for range 3 { // an adjustment may belong to an earlier collection, and one may be running
		runtime.GC()
		percent = <-adjusted
	}
	for {
		select {
		case percent = <-adjusted:
		default:
			return percent
		}
	}
}

func gogc() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// TestEnvironmentApplies checks that Set changes nothing if the environment has GOGC.
func TestEnvironmentApplies(t *testing.T) {
	if os.Getenv("SLUICE_TEST_CHILD") != "" {
		Set(64 << 20)
		println("GOGC is", gogc())
		return
	}
	for env, want := range map[string]string{"": "1600", "150": "150"} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEnvironmentApplies$")
		child.Env = append(os.Environ(), "SLUICE_TEST_CHILD=1", "GOGC="+env)
		out, err := child.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "GOGC is "+want+"\n") {
			t.Errorf("with %s in the environment: %v, %s", strconv.Quote("GOGC="+env), err, out)
		}
	}
}
