package blob

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sluice/bytestore"
	"sluice/test/testenv"
)

// TestPauses checks how long a task pauses after a step, and how large the next one is.
// Invariant 133.
func TestPauses(t *testing.T) {
	const most = 800
	for name, c := range map[string]struct {
		busy   bool
		urgent bool
		space  error
		steps  int // that have ended before
		worked time.Duration
		size   int
		pause  time.Duration
	}{
		"no requests":          {worked: time.Millisecond, size: most},
		"a short step":         {busy: true, worked: time.Millisecond, size: 100, pause: 3 * time.Millisecond},
		"a long step":          {busy: true, worked: time.Second, size: 100, pause: 250 * time.Millisecond},
		"a long urgent step":   {busy: true, urgent: true, worked: time.Second, size: 100, pause: 10 * time.Millisecond},
		"the disk is full":     {busy: true, worked: time.Second, space: bytestore.ErrNoSpace, size: most},
		"space is not known":   {busy: true, worked: time.Second, space: errors.New("statfs"), size: 100, pause: 250 * time.Millisecond},
		"the last short steps": {busy: true, urgent: true, worked: time.Second, steps: 30, size: 100, pause: 10 * time.Millisecond},
		"larger steps":         {busy: true, urgent: true, worked: time.Second, steps: 31, size: 200, pause: 5 * time.Millisecond},
		"the largest steps":    {busy: true, urgent: true, worked: time.Second, steps: 95, size: most, pause: 1250 * time.Microsecond},
		"a task without end":   {busy: true, urgent: true, worked: time.Second, steps: 1e6, size: most},
		"a purge without end":  {busy: true, worked: time.Second, steps: 1e6, size: most, pause: 250 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(nil, nil, Options{Busy: func() bool { return c.busy }, Space: func(int64) error { return c.space }})
			p := s.newPacer()
			p.urgent = c.urgent
			begin := time.Now()
			if _, err := p.next(t.Context(), most); err != nil || time.Since(begin) != 0 {
				t.Errorf("%s: the first step waited for %s, %v", name, time.Since(begin), err)
			}
			p.steps = c.steps
			time.Sleep(c.worked)
			begin = time.Now()
			size, err := p.next(t.Context(), most)
			if pause := time.Since(begin); size != c.size || pause.Truncate(time.Microsecond) != c.pause || err != nil {
				t.Errorf("%s: a pause of %s and a step of %d, %v, want %s and %d", name, pause, size, err, c.pause, c.size)
			}
		})
	}
}

// TestPauseEndsWithTheContext checks that a node that stops does not wait for a pause.
func TestPauseEndsWithTheContext(t *testing.T) {
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := New(nil, nil, Options{Busy: func() bool { return busy }}).newPacer()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			testenv.Must(p.next(ctx, 1))(t)
			time.Sleep(time.Second)
			begin := time.Now()
			time.AfterFunc(time.Millisecond, cancel)
			for err := error(nil); err == nil; {
				_, err = p.next(ctx, 1)
				if errors.Is(err, context.Canceled) {
					break
				}
				time.Sleep(time.Millisecond)
			}
			if d := time.Since(begin); d > 2*time.Millisecond {
				t.Errorf("busy %t: the pause ended %s after the context", busy, d-time.Millisecond)
			}
		})
	}
}
