package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/database"
	"sluice/test/testenv"
)

// TestPostgresWriteSkew: of two transactions that each read a row that the other writes, the engine
// rolls one back and retries it.
func TestPostgresWriteSkew(t *testing.T) {
	s, _ := openNode(t, testenv.Postgres(t)+patientDSN)
	var runs atomic.Int64
	both := make(chan struct{}) // closed when both have read
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			err := s.Write(t.Context(), func(t *Tx) error {
				var facts int64
				if _, err := t.Row(`SELECT COUNT(*) FROM facts`, nil, (*Integer)(&facts)); err != nil {
					return err
				}
				if runs.Add(1) == 2 {
					close(both)
				}
				<-both
				if facts > 0 {
					return nil
				}
				_, err := t.Exec(`INSERT INTO facts (name, value) VALUES ($1, $1)`, []byte{byte(i)})
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := value(t, s, `SELECT COUNT(*) FROM facts`); n != 1 || runs.Load() < 3 {
		t.Errorf("%d facts after %d runs, want one after the third", n, runs.Load())
	}
	if stats := s.Stats(); stats.Postgres.ConflictRetries == 0 || stats.Postgres.LostRetries != 0 || stats.Commits.Counts().Count == 0 {
		t.Errorf("the figures are %+v, with %d COMMITs", stats.Postgres, stats.Commits.Counts().Count)
	}
}

// hold returns when the transaction holds a lock.
func hold(t *Tx, name string) error {
	if err := t.Lock(name); err != nil {
		return err
	}
	_, err := t.Row(`SELECT 1`, nil, new(Integer)) // sends the lock's statement
	return err
}

// TestPostgresDeadlock: a deadlock of two transactions is resolved.
func TestPostgresDeadlock(t *testing.T) {
	s, _ := openNode(t, testenv.Postgres(t)+"&deadlock_timeout=10")
	var runs atomic.Int64
	both := make(chan struct{}) // closed when both hold a lock
	var wg sync.WaitGroup
	for _, locks := range [][]string{{"a", "b"}, {"b", "a"}} {
		wg.Go(func() {
			err := s.WriteLocked(t.Context(), func(t *Tx) error {
				if err := hold(t, locks[0]); err != nil {
					return err
				}
				if runs.Add(1) == 2 {
					close(both)
				}
				<-both
				return hold(t, locks[1])
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if runs.Load() < 3 {
		t.Errorf("%d runs, want a third one", runs.Load())
	}
}

// TestPostgresLostNodeHoldsNoLocks: a node that is cut off during a transaction loses the
// transaction and its locks.
func TestPostgresLostNodeHoldsNoLocks(t *testing.T) {
	dsn := testenv.Postgres(t)
	lost, _ := openNode(t, dsn+"&idle_in_transaction_session_timeout=500")
	other, _ := openNode(t, dsn)
	runs := 0
	err := lost.WriteLocked(t.Context(), func(t *Tx) error {
		if runs++; runs > 1 {
			return hold(t, "thing")
		}
		if err := hold(t, "thing"); err != nil {
			return err
		}
		// This one waits as long as the first transaction lives.
		if err := other.WriteLocked(context.Background(), func(t *Tx) error { return hold(t, "thing") }); err != nil {
			return err
		}
		return hold(t, "another thing")
	})
	if err != nil || runs < 2 {
		t.Errorf("%d runs, error %v, want another run without one", runs, err)
	}
}

// TestPostgresReadsDoNotQueueBehindWrites: waiting transactions occupy only part of all
// connections.
func TestPostgresReadsDoNotQueueBehindWrites(t *testing.T) {
	s, _ := openNode(t, testenv.Postgres(t)+"&pool_max_conns=4"+patientDSN)
	at, release := make(chan struct{}, 10), make(chan struct{})
	var wg sync.WaitGroup
	for i := range cap(at) {
		wg.Go(func() {
			err := s.WriteLocked(context.Background(), func(t *Tx) error {
				if err := hold(t, fmt.Sprint(i)); err != nil {
					return err
				}
				at <- struct{}{}
				<-release
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range 2 {
		<-at
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	testenv.Is(t, testenv.Error(s.fact(ctx, "name")), database.ErrNotFound, "read while writes wait")
	testenv.Is(t, s.SnapshotList(ctx, func(t *Tx) error { _, err := readFact(t, "name", ""); return err }), database.ErrNotFound, "list while writes wait")
	close(release)
	wg.Wait()
}
