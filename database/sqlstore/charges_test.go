package sqlstore

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
	"sluice/internal/testenv"
	"sluice/ledger"
)

// unsure makes the store lose the responses to the transactions that pick selects, before or after
// their COMMIT.
func unsure(s *Store, pick func() (before, after bool)) {
	s.db.eng = hookedEngine{engine: s.db.eng, onWriteLocked: func(write transactor) transactor {
		return func(ctx context.Context, fn func(*tx) error) error {
			before, after := pick()
			if before {
				err := write(ctx, func(t *tx) error { return errors.Join(fn(t), errors.New("undone")) })
				return fmt.Errorf("%w: %w", database.ErrUnknownOutcome, err)
			}
			err := write(ctx, fn)
			if err == nil && after {
				err = database.ErrUnknownOutcome
			}
			return err
		}
	}}
}

// TestChargeInDoubt: a charge in doubt is returned if it was made, regardless of later charges
// of the store, and after a restart.
func TestChargeInDoubt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	open := func() *Store {
		s, err := OpenSQLite(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	_, err := s.CreateSession(t.Context(), ledger.Session{ID: "s", Total: 100, Left: 100, Expires: time.Now().Add(time.Hour)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var lose atomic.Bool
	unsure(s, func() (bool, bool) { return false, lose.Load() })
	charge := func(s *Store, n int64, name string, left int64) {
		t.Helper()
		if got, err := s.ChargeSession(t.Context(), "s", n, name); err != nil || got.Left != left {
			t.Fatalf("%+v, %v, want %d left", got, err, left)
		}
	}
	doubt := func(n int64, name string) {
		t.Helper()
		lose.Store(true)
		defer lose.Store(false)
		if _, err := s.ChargeSession(t.Context(), "s", n, name); !errors.Is(err, database.ErrUnknownOutcome) {
			t.Fatal(err)
		}
	}
	back := func(s *Store, name string, left int64) {
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
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	charge(s, 1, "f", 90)
	charge(s, 1, "g", 89)
	back(s, "b", 95)
	back(s, "a", 95)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestConcurrentChargesInDoubt makes concurrent charges to a few sessions, of which some are in doubt.
// Each counts once or not at all.
func TestConcurrentChargesInDoubt(t *testing.T) {
	testChargesInDoubt(t, func(t *testing.T) *Store {
		s, err := OpenSQLite(filepath.Join(t.TempDir(), "meta.db"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// TestConcurrentChargesInDoubtPostgres does the same on PostgreSQL, where transactions of a session wait
// for each other.
func TestConcurrentChargesInDoubtPostgres(t *testing.T) {
	dsn := testenv.Postgres(t)
	testChargesInDoubt(t, func(t *testing.T) *Store {
		s, err := OpenPostgres(t.Context(), dsn, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func testChargesInDoubt(t *testing.T, open func(*testing.T) *Store) {
	s := open(t)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	const sessions, total = 3, 1 << 30
	for i := range sessions {
		_, err := s.CreateSession(t.Context(), ledger.Session{ID: fmt.Sprint(i), Total: total, Left: total, Expires: time.Now().Add(time.Hour)}, nil)
		if err != nil {
			t.Fatal(err)
		}
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
				if err != nil {
					t.Errorf("returning a charge: %v", err)
				}
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

// TestLateCommitOfAChargePostgres checks a COMMIT of a charge that arrives after its caller got an
// unknown outcome, and while another node returns the charge. The charge must have no effect.
func TestLateCommitOfAChargePostgres(t *testing.T) {
	dsn := testenv.Postgres(t)
	stores := make([]*Store, 2)
	for i := range stores {
		s, err := OpenPostgres(t.Context(), dsn, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		stores[i] = s
	}
	_, err := stores[0].CreateSession(t.Context(), ledger.Session{ID: "s", Total: 9, Left: 9, Expires: time.Now().Add(time.Hour)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	held, release, committed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	stores[0].db.eng = hookedEngine{engine: stores[0].db.eng, onWriteLocked: func(write transactor) transactor {
		return func(ctx context.Context, fn func(*tx) error) error {
			go func() {
				committed <- write(ctx, func(t *tx) error {
					err := fn(t)
					close(held)
					<-release
					return err
				})
			}()
			<-held
			return database.ErrUnknownOutcome
		}
	}}
	if _, err := stores[0].ChargeSession(t.Context(), "s", 4, "late"); !errors.Is(err, database.ErrUnknownOutcome) {
		t.Fatal(err)
	}
	returned := make(chan error, 1)
	go func() {
		got, err := stores[1].ReturnCharge(t.Context(), "s", "late")
		if err == nil && got.Left != 9 {
			err = fmt.Errorf("%d left, want 9", got.Left)
		}
		returned <- err
	}()
	for waits := int64(0); waits == 0; { // until the return waits for the row
		err := stores[1].db.read(t.Context(), func(t *tx) error {
			_, err := t.row(`SELECT CAST(COUNT(*) AS BIGINT) FROM pg_catalog.pg_locks WHERE NOT granted AND pid IN
				(SELECT a.pid FROM pg_catalog.pg_stat_activity a WHERE a.datname = current_database())`, nil, (*integer)(&waits))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	if err := errors.Join(<-committed, <-returned); err != nil {
		t.Error(err)
	}
	if got, err := stores[1].Session(t.Context(), "s"); err != nil || got.Left != 9 || got.Used != 0 {
		t.Errorf("%+v, %v, want nothing used", got, err)
	}
}
