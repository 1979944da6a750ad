package money

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
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

// unsure makes the store lose the responses to the transactions that pick selects, before or after
// their COMMIT.
func unsure(s *Ledger, pick func() (before, after bool)) {
	enginetest.Hook(s.db, enginetest.Hooks{WriteLocked: func(write enginetest.Transactor) enginetest.Transactor {
		return func(ctx context.Context, fn func(*engine.Tx) error) error {
			before, after := pick()
			if before {
				err := write(ctx, func(t *engine.Tx) error { return errors.Join(fn(t), errors.New("undone")) })
				return fmt.Errorf("%w: %w", database.ErrUnknownOutcome, err)
			}
			err := write(ctx, fn)
			if err == nil && after {
				err = database.ErrUnknownOutcome
			}
			return err
		}
	}})
}

// TestChargeInDoubt: a charge in doubt is returned if it was made, regardless of the store's later
// charges, and after a restart.
func TestChargeInDoubt(t *testing.T) {
	path := filepath.Join(testenv.MemoryDir(t), "meta.db")
	open := func() *Ledger {
		return openAt(t, path, engine.Options{})
	}
	s := open()
	testenv.Must(s.CreateSession(t.Context(), ledger.Session{ID: "s", Total: 100, Left: 100, Expires: time.Now().Add(time.Hour)}, nil))(t)
	var lose atomic.Bool
	unsure(s, func() (bool, bool) { return false, lose.Load() })
	charge := func(s *Ledger, n int64, name string, left int64) {
		t.Helper()
		if got, err := s.ChargeSession(t.Context(), "s", n, name); err != nil || got.Left != left {
			t.Fatalf("%+v, %v, want %d left", got, err, left)
		}
	}
	doubt := func(n int64, name string) {
		t.Helper()
		lose.Store(true)
		defer lose.Store(false)
		testenv.Is(t, testenv.Error(s.ChargeSession(t.Context(), "s", n, name)), database.ErrUnknownOutcome, "%s", name)
	}
	back := func(s *Ledger, name string, left int64) {
		t.Helper()
		if got, err := s.ReturnCharge(t.Context(), "s", name); err != nil || got.Left != left {
			t.Fatalf("%+v, %v, want %d left", got, err, left)
		}
	}
	doubt(5, "a")
	doubt(6, "b")
	charge(s, 1, "c", 88)
	charge(s, 1, "d", 87)
	back(s, "a", 92)
	back(s, "a", 92)
	charge(s, 1, "e", 91)
	testenv.OK(t, s.db.Close())
	s = open()
	charge(s, 1, "f", 90)
	charge(s, 1, "g", 89)
	back(s, "b", 95)
	back(s, "a", 95)
	testenv.OK(t, s.db.Close())
}

// TestConcurrentChargesInDoubt makes concurrent charges to a few sessions, some of them in doubt.
// Each counts once or not at all.
// Invariant 28.
func TestConcurrentChargesInDoubt(t *testing.T) {
	testChargesInDoubt(t, openAt(t, databasePath(t), engine.Options{}))
}

// TestConcurrentChargesInDoubtPostgres does the same on PostgreSQL, where a session's transactions
// wait for each other.
func TestConcurrentChargesInDoubtPostgres(t *testing.T) {
	testChargesInDoubt(t, New(enginetest.OpenPostgres(t, testenv.Postgres(t), engine.Options{})))
}

func testChargesInDoubt(t *testing.T, s *Ledger) {
	const sessions, total = 3, 1 << 30
	for i := range sessions {
		testenv.Must(s.CreateSession(t.Context(), ledger.Session{ID: fmt.Sprint(i), Total: total, Left: total, Expires: time.Now().Add(time.Hour)}, nil))(t)
	}
	unsure(s, func() (bool, bool) {
		switch rand.IntN(6) {
		case 0:
			return true, false
		case 1:
			return false, true
		default:
			return false, false
		}
	})
	var served [sessions]atomic.Int64
	var workers sync.WaitGroup
	for w := range 12 {
		workers.Go(func() {
			for k := range 40 {
				id, name, n := fmt.Sprint(w%sessions), fmt.Sprint(w, "-", k), int64(1+k%3)
				_, err := s.ChargeSession(t.Context(), id, n, name)
				if err == nil {
					served[w%sessions].Add(n)
					continue
				}
				for errors.Is(err, database.ErrUnknownOutcome) { // until the outcome is known
					_, err = s.ReturnCharge(t.Context(), id, name)
				}
				testenv.Is(t, err, nil, "returning a charge")
			}
		})
	}
	workers.Wait()
	for i := range sessions {
		got, err := s.Session(t.Context(), fmt.Sprint(i))
		if want := served[i].Load(); err != nil || got.Used != want || got.Left != total-want {
			t.Errorf("%+v, %v, want %d used", got, err, want)
		}
	}
	s.uses.doubts.mu.Lock()
	defer s.uses.doubts.mu.Unlock()
	if len(s.uses.doubts.since) > 0 {
		t.Errorf("charges stay in doubt: %v", s.uses.doubts.since)
	}
}

// TestLateCommitOfAChargePostgres checks a charge's COMMIT that arrives after its caller got an
// unknown outcome, and while another node returns the charge. The charge must have no effect.
// Invariant 28.
func TestLateCommitOfAChargePostgres(t *testing.T) {
	dsn := testenv.Postgres(t)
	stores := make([]*Ledger, 2)
	for i := range stores {
		stores[i] = New(enginetest.OpenPostgres(t, dsn, engine.Options{}))
	}
	testenv.Must(stores[0].CreateSession(t.Context(), ledger.Session{ID: "s", Total: 9, Left: 9, Expires: time.Now().Add(time.Hour)}, nil))(t)
	held, release, committed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	enginetest.Hook(stores[0].db, enginetest.Hooks{WriteLocked: func(write enginetest.Transactor) enginetest.Transactor {
		return func(ctx context.Context, fn func(*engine.Tx) error) error {
			go func() {
				committed <- write(ctx, func(t *engine.Tx) error {
					err := fn(t)
					close(held)
					<-release
					return err
				})
			}()
			<-held
			return database.ErrUnknownOutcome
		}
	}})
	testenv.Is(t, testenv.Error(stores[0].ChargeSession(t.Context(), "s", 4, "late")), database.ErrUnknownOutcome, "a charge in doubt")
	returned := make(chan error, 1)
	go func() {
		got, err := stores[1].ReturnCharge(t.Context(), "s", "late")
		if err == nil && got.Left != 9 {
			err = fmt.Errorf("%d left, want 9", got.Left)
		}
		returned <- err
	}()
	enginetest.AwaitLock(t, stores[1].db) // the return waits for the row
	close(release)
	testenv.Check(t, errors.Join(<-committed, <-returned))
	if got, err := stores[1].Session(t.Context(), "s"); err != nil || got.Left != 9 || got.Used != 0 {
		t.Errorf("%+v, %v, want nothing used", got, err)
	}
}
