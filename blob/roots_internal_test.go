package blob

import (
	"testing"
	"testing/synctest"
	"time"

	"sluice/metastore"
	"sluice/test/testenv"
)

// clockOf is a database with a clock alone.
type clockOf struct{ Metadata }

func (clockOf) Now() time.Time { return time.Now() }

// TestPausesOfRoots checks how long the task pauses after a second of work, besides reading: it has
// a 50th of one processor while requests are in progress, and a quarter for contents that have
// waited.
// Invariant 243.
func TestPausesOfRoots(t *testing.T) {
	for name, c := range map[string]struct {
		busy  bool
		age   time.Duration
		pause time.Duration
	}{
		"no requests":                     {age: time.Hour},
		"requests":                        {busy: true, pause: 49 * time.Second},
		"requests, and ten minutes":       {busy: true, age: lateAfter, pause: 49 * time.Second},
		"requests, and more than that":    {busy: true, age: lateAfter + 1, pause: 3 * time.Second},
		"requests, and a clock set back ": {busy: true, age: -time.Hour, pause: 49 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(clockOf{}, nil, Options{Busy: func() bool { return c.busy }})
			x := rooting{s: s, began: time.Now()}
			for range 2 {
				time.Sleep(3 * time.Second)
				x.reads += 2 * time.Second
				began := time.Now()
				testenv.OK(t, x.pause(t.Context(), &Content{Blob: metastore.Blob{Modified: began.Add(-c.age)}}))
				testenv.Equal(t, time.Since(began), c.pause, "pause with %s", name)
			}
		})
	}
}
