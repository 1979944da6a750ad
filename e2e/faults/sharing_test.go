package faults

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"sluice/e2e"
)

// TestSharedContentsSurviveKills stores, copies, moves, replaces and deletes blobs at random while
// the server is killed repeatedly. Every name must have its acknowledged content, a request without
// a response must have had its effect completely or not at all, and in the end no content may be
// left that no blob has.
// Invariants 2, 5.
func TestSharedContentsSurviveKills(t *testing.T) {
	t.Parallel()
	t.Run("in memory", func(t *testing.T) {
		t.Parallel()
		sharedContents(t, e2e.Options{}, 300, func(kills int) bool { return kills < 6 })
	})
	t.Run("on a disk", func(t *testing.T) {
		t.Parallel()
		sharedContents(t, e2e.Options{Data: filepath.Join(t.TempDir(), "data")}, 100, func(kills int) bool { return kills < 6 })
	})
}

// sharedContents kills the server after about count requests each time, while goOn returns true; it
// is called with the number of kills.
func sharedContents(t *testing.T, o e2e.Options, count int64, goOn func(kills int) bool) {
	t.Helper()
	seed := e2e.Seed(t)
	random := rand.New(rand.NewPCG(seed, 1<<32))
	o.Dirty, o.Flags = true, []string{"--garbage-grace", "0s"}
	s := e2e.Start(t, o.Tuned(e2e.Tuning{"PurgeEvery": time.Second}))
	sharers := e2e.NewSharers(t, seed, []*e2e.Server{s})
	for kills := 0; goOn(kills); kills++ {
		sharers.RunAndKill(random, count, s, s.Restart)
	}
	sharers.Delete()
	sharers.NoObjectIsLeft(filepath.Join(s.Data, "bytes"))
	if r := e2e.SluiceRuns(t, "check", "--books", "--data", s.Data); r.Code != 0 {
		t.Errorf("audit: exit code %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
}
