package commands

import (
	"maps"
	"math/rand/v2"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// TestFolderSurvivesFaults stores a folder and reads it back through a network that resets and
// stalls connections. The test kills the command three times and runs it again, and then does the
// same to the server. The command may send no acknowledged part or file again, the folder must come
// back identical, and no transfer may leave a file.
// Invariants 145, 146.
func TestFolderSurvivesFaults(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.Unix)
	const part = 256 << 10
	files := map[string]string{
		"empty": "", "small": "text", ".hidden": "h", "with space/ü": "u", "a/b/c/d/e": "deep", "100%": "%", "question?x=1#f": "q",
		"\u202ereversed": "b", "semi;colon": ";", "dotted.": ".", "-flag": "-",
		"part": string(e2e.Content(1, part)), "less": string(e2e.Content(2, part-1)), "more": string(e2e.Content(3, part+1)),
		// The large one takes three ranges to download.
		"sub/big": string(e2e.Content(4, 12*part-5)), "large": string(e2e.Content(5, 36<<20+1)),
	}
	for seed := range uint64(2) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			s := e2e.Start(t, e2e.Options{Addr: testenv.ReserveAddress(t), Dirty: true})
			unreliable := &unreliable{random: rand.New(rand.NewPCG(seed, 0)), next: map[side]trouble{}}
			var network *fault.Network
			p := e2e.NewCountingProxyOn(t, s, func(l net.Listener) net.Listener {
				network = fault.On(l)
				network.Disturb(unreliable.disturb)
				return network
			})
			r := &faultyRuns{t: t, s: s, p: p, random: rand.New(rand.NewPCG(seed, 1))}
			source, target := e2e.MakeTree(t, files), t.TempDir()
			tree := readTree(t, source)

			r.responses = 158 + len(files) // for three files in several parts, and for single-part ones
			r.until("put", "-r", source, "team/dir", "--part-size", "256KiB", "--url", p.URL)
			for request, n := range p.Delivered {
				if strings.HasPrefix(request, "PUT ") && n != 1 {
					t.Errorf("%s was acknowledged %d times", request, n)
				}
			}
			if n := len(p.Uploads); n != 3 {
				t.Errorf("%d uploads have parts, want one for each file in several parts", n)
			}
			if got := readTree(t, source); !maps.Equal(got, tree) {
				t.Errorf("the source is %q after the uploads", slices.Sorted(maps.Keys(got)))
			}

			r.responses = 3 + len(files)
			r.until("get", "-r", "team/dir", target, "--url", p.URL)
			if got := readTree(t, target); !maps.Equal(got, tree) {
				t.Errorf("got %v\nwant %v", got, tree)
			}
			network.Disturb(nil)
			t.Logf("%d connections ended, %d stalls", unreliable.ends, unreliable.stalls)
			if unreliable.ends < 10 || unreliable.stalls < 5 {
				t.Error("too few faults happened")
			}
		})
	}
}

// unreliable is a network's trouble, which depends on a seed.
type unreliable struct {
	random       *rand.Rand
	next         map[side]trouble
	ends, stalls int
}

// side is one direction of a connection.
type side struct {
	conn   int
	answer bool
}

// trouble happens when so many bytes have gone in a direction.
type trouble struct {
	at int64
	fault.Trouble
}

func (u *unreliable) disturb(p fault.Piece) fault.Trouble {
	on := side{p.Conn, p.Answer}
	next, ok := u.next[on]
	if !ok {
		next = u.plan(p.Sent)
		u.next[on] = next
	}
	next.After = max(0, next.at-p.Sent)
	switch {
	case next.After >= p.Len:
		return fault.Trouble{}
	case next.After > 0:
	case next.Kind == fault.Fail:
		u.ends++
	default:
		u.stalls++
		u.next[on] = u.plan(p.Sent)
	}
	return next.Trouble
}

// plan returns a direction's next trouble. A quarter of them are within a header, the rest anywhere
// in up to 4 MiB.
func (u *unreliable) plan(sent int64) trouble {
	next := trouble{sent + 1 + u.random.Int64N(4<<20), fault.Trouble{Kind: fault.Fail, Reset: u.random.IntN(2) == 0}}
	if u.random.IntN(4) == 0 {
		next.at = sent + 1 + u.random.Int64N(1000)
	}
	if u.random.IntN(3) == 0 {
		next.Trouble = fault.Trouble{Kind: fault.Delay, Time: time.Duration(1 + u.random.IntN(int(200*time.Millisecond)))}
	}
	return next
}

// faultyRuns runs a command again and again until it has succeeded, as a user does. During the
// first runs it kills the command, and then the server, after numbers of responses that depend on a
// seed.
type faultyRuns struct {
	t         *testing.T
	s         *e2e.Server
	p         *e2e.CountingProxy
	random    *rand.Rand
	responses int // about as many as the whole transfer has
}

func (r *faultyRuns) until(args ...string) {
	r.t.Helper()
	for range 3 {
		r.during(args, func(command *exec.Cmd) {
			testenv.OK(r.t, command.Process.Kill())
		})
	}
	r.during(args, func(*exec.Cmd) {
		r.s.Kill()
		r.s.Restart()
	})
	for range 5 {
		result := e2e.SluiceRuns(r.t, args...)
		if result.Code == 0 {
			r.p.Wait()
			return
		}
		r.t.Logf("exit code %d: %s", result.Code, result.Stderr)
	}
	r.t.Fatal("the command does not succeed")
}

// during starts the command and calls do after some responses. The next requests wait for its
// return.
func (r *faultyRuns) during(args []string, do func(command *exec.Cmd)) {
	r.t.Helper()
	command := exec.CommandContext(r.t.Context(), e2e.Sluice, args...)
	var stderr strings.Builder
	command.Stderr = &stderr
	n := 1 + r.random.IntN(r.responses/3)
	reached := r.p.After(n)
	testenv.OK(r.t, command.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = command.Wait() // its exit code is logged
	}()
	select {
	case <-ended:
	case <-reached:
		do(command)
	}
	r.p.Resume()
	<-ended
	r.p.Wait()
	r.t.Logf("after %d responses: exit code %d, %s", n, command.ProcessState.ExitCode(), stderr.String())
}
