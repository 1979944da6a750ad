package logbuffer

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/test/testenv"
)

func network(a, b byte) Source {
	return Source{Network: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, a, b}), 32)}
}

var omittedLines = regexp.MustCompile(`omitted=(\d+)`)

// omitted returns how many lines were not written, according to the log.
func omitted(t *testing.T, log string) (sum int) {
	t.Helper()
	for _, m := range omittedLines.FindAllStringSubmatch(log, -1) {
		sum += testenv.Must(strconv.Atoi(m[1]))(t)
	}
	return sum
}

// TestSampler checks how many lines are written from one source, and that one line reports at each
// interval's end how many were not, so that none is lost from the count.
// Invariant 134.
func TestSampler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := NewSampler(slog.New(slog.NewTextHandler(&out, nil)), slog.LevelInfo, "requests not logged")
		const seconds, perSecond = 150, 100 // two intervals and a half
		written := 0
		for range seconds * perSecond {
			status := 429
			if written == maxSampled+1 {
				status = 401
			}
			if s.Allow(network(0, 1), status) {
				written++
			}
			time.Sleep(time.Second/perSecond + time.Microsecond) // so that no line is where an interval ends
		}
		quiet := 0
		for range maxSampled {
			if s.Allow(network(0, 2), 401) {
				quiet++
			}
		}
		s.Flush()
		if written != 3*maxSampled || quiet != maxSampled {
			t.Errorf("%d lines of a source in 2.5 intervals, and %d of another; want %d and %d", written, quiet, 3*maxSampled, maxSampled)
		}
		sum := omitted(t, out.String())
		if sum+written != seconds*perSecond || strings.Count(out.String(), "\n") != 3 || strings.Count(out.String(), "source=10.0.0.1 ") != 3 {
			t.Errorf("%d of %d are written, %d counted:\n%s", written, seconds*perSecond, sum, &out)
		}
		if !strings.Contains(out.String(), `statuses="429: 5940"`) {
			t.Errorf("no count by status:\n%s", &out)
		}
		before := out.Len()
		time.Sleep(3 * sampleInterval)
		synctest.Wait()
		s.Flush()
		if out.Len() != before {
			t.Errorf("lines about nothing:\n%s", out.String()[before:])
		}
	})
}

// TestSamplerIsBounded checks how many sources take memory, and that all further sources together
// are bounded too and counted.
// Invariant 135.
func TestSamplerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := NewSampler(slog.New(slog.NewTextHandler(&out, nil)), slog.LevelInfo, "requests not logged")
		written := 0
		for i := range 4 * maxSources {
			if s.Allow(network(byte(i>>8), byte(i)), 429) {
				written++
			}
		}
		if n := len(s.sources); n != maxSources+1 || written != maxSources+maxSampled {
			t.Errorf("%d sources are kept and %d lines written, want %d and %d", n, written, maxSources+1, maxSources+maxSampled)
		}
		s.Flush()
		if want := fmt.Sprintf("source=others omitted=%d ", 3*maxSources-maxSampled); strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), want) {
			t.Errorf("want one line with %q:\n%s", want, &out)
		}
	})
}

// TestSamplerBoundsAllSources checks how many lines many sources together can write in a minute,
// and that the rest are counted.
// Invariant 135.
func TestSamplerBoundsAllSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := NewSampler(slog.New(slog.NewTextHandler(&out, nil)), slog.LevelInfo, "requests not logged")
		const attempts = 2 * maxSampled
		for range 2 {
			written := 0
			out.Reset()
			for i := range maxSources * attempts {
				if s.Allow(network(byte(i%maxSources>>8), byte(i%maxSources)), 429) {
					written++
				}
			}
			time.Sleep(sampleInterval)
			synctest.Wait()
			counted := omitted(t, out.String())
			if written != maxLines || written+counted != maxSources*attempts {
				t.Errorf("%d lines are written and %d counted, want %d and all of %d",
					written, counted, maxLines, maxSources*attempts)
			}
			if lines := strings.Count(out.String(), "\n"); lines > maxSources {
				t.Errorf("%d lines say how many were not written", lines)
			}
		}
	})
}
