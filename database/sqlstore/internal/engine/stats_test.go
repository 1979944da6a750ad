package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sluice/test/testenv"
)

// TestStatsOfSQLite holds the writer and the only reader up, and checks the figures for the waiting
// calls and for the COMMIT that they share.
func TestStatsOfSQLite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openAt(t, databasePath(t), Options{Readers: 1})
		const calls = 5
		testenv.Equal(t, s.Stats().SQLite.Batches.Counts().Count, 0, "batches in the beginning")
		hold, done := make(chan struct{}), make(chan error, 1+calls)
		go func() {
			done <- s.Write(t.Context(), func(*Tx) error { <-hold; return nil })
		}()
		synctest.Wait()
		for i := range calls {
			go func() { done <- s.setFact(t.Context(), fmt.Sprint(i), "value") }()
		}
		synctest.Wait()
		testenv.Equal(t, s.Stats().SQLite.Queue, calls, "calls that wait")
		close(hold)
		for range 1 + calls {
			testenv.Check(t, <-done)
		}
		after := s.Stats()
		batches, commits := after.SQLite.Batches.Counts(), after.Commits.Counts()
		if batches.Count != 1 || batches.Sum != 1+calls || commits.Count != 1 {
			t.Errorf("%d batches of %v calls and %d COMMITs, want one of %d", batches.Count, batches.Sum, commits.Count, 1+calls)
		}
		if after.SQLite.Queue != 0 || after.InDoubt != 0 || after.SQLite.DatabaseBytes == 0 || after.SQLite.LogBytes == 0 {
			t.Errorf("the figures are %+v, %+v", after, after.SQLite)
		}

		hold = make(chan struct{})
		go func() { done <- s.Read(t.Context(), func(*Tx) error { <-hold; return nil }) }()
		synctest.Wait()
		go func() {
			_, err := s.fact(t.Context(), "0")
			done <- err
		}()
		time.Sleep(time.Second)
		testenv.Equal(t, s.Stats().SQLite.ReadWaits, 0, "waits that have ended")
		close(hold)
		for range 2 {
			testenv.Check(t, <-done)
		}
		if got := s.Stats().SQLite; got.ReadWaits != 1 || got.ReadWaitTime != time.Second {
			t.Errorf("%d reads waited for %v, want one for a second", got.ReadWaits, got.ReadWaitTime)
		}
	})
}
