package sqlstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/ledger"
	"sluice/test/testenv"
)

var errNotPermitted = errors.New("not permitted")

// TestGuardRefusesCommits checks, on both engines, that the store commits no change to the instance
// against the guard, even if the guard forbids commits only after the transaction has run. Reads
// and the records of the database's own processes need no permission. Once the guard permits
// commits again, everything works.
// Invariant 94.
func TestGuardRefusesCommits(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		session := testenv.Must(s.CreateSession(ctx, ledger.Session{ID: "s", Total: 10, Left: 10, Expires: s.Now().Add(time.Hour)}, nil))(t)
		var forbidden atomic.Bool
		s.Guard(func() error {
			if forbidden.Load() {
				return errNotPermitted
			}
			return nil
		})
		forbidden.Store(true)
		_, useErr := s.UseSession(ctx, session.ID, 1, nil)
		_, createErr := s.CreateSession(ctx, ledger.Session{ID: "t", Total: 10, Left: 10, Expires: s.Now().Add(time.Hour)}, nil)
		lateErr := s.db.Write(ctx, func(tx *engine.Tx) error {
			forbidden.Store(false) // the transaction begins with permission
			if err := tx.Change(`UPDATE sessions SET remaining = 1`); err != nil {
				return err
			}
			forbidden.Store(true)
			return nil
		})
		for name, err := range map[string]error{"a use": useErr, "a new session": createErr, "a transaction that has run": lateErr} {
			if !errors.Is(err, errNotPermitted) || errors.Is(err, database.ErrUnknownOutcome) {
				t.Errorf("%s: %v, want %v", name, err, errNotPermitted)
			}
		}
		testenv.Equal(t, testenv.Must(s.Session(ctx, session.ID))(t).Left, 10, "after refused commits the session")
		held, err := s.Lease(ctx, "lease", "holder", time.Minute)
		err = errors.Join(err, s.SetProperty(ctx, "name", "old"), s.ReplaceProperty(ctx, "name", "old", "new"),
			s.Join(ctx, "node", "settings", database.Node{}, time.Minute, func([]string) error { return nil }), s.Leave(ctx, "node"),
			s.PublishTasks(ctx, []database.TaskProgress{{Name: "task"}}))
		if err != nil || !held {
			t.Errorf("records of the processes: %t, %v", held, err)
		}
		forbidden.Store(false)
		testenv.Equal(t, testenv.Must(s.UseSession(ctx, session.ID, 1, nil))(t).Left, 9, "with permission")
	})
}

// TestGuardInABatch checks that a commit without need for permission succeeds, although it shares a
// batch with refused commits.
// Invariant 94.
func TestGuardInABatch(t *testing.T) {
	s := openAt(t, databasePath(t), Options{})
	s.Guard(func() error { return errNotPermitted })
	held := enginetest.Hold(t, s.db)
	var calls sync.WaitGroup
	for _, id := range []string{"a", "b"} {
		session := ledger.Session{ID: id, Total: 1, Left: 1, Expires: s.Now().Add(time.Hour)}
		calls.Go(func() {
			testenv.Is(t, testenv.Error(s.CreateSession(context.Background(), session, nil)), errNotPermitted, "session %s", id)
		})
	}
	calls.Go(func() {
		testenv.Is(t, s.SetProperty(context.Background(), "name", "value"), nil, "the property")
	})
	held.Queued(3)
	held.Release()
	calls.Wait()
	testenv.Check(t, held.Result())
	holds(t, s, 0, `SELECT COUNT(*) FROM sessions`)
}
