package money

import (
	"context"
	"errors"
	"runtime"
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

// waiting waits until n uses wait for their transactions.
func waiting(s *Ledger, n int) {
	for {
		have := 0
		s.uses.mu.Lock()
		for _, list := range s.uses.mu.waiting {
			have += len(list)
		}
		s.uses.mu.Unlock()
		if have == n {
			return
		}
		runtime.Gosched()
	}
}

// TestCoalescedMany runs uses of many chunksets each in one transaction: in the order of
// arrival each is performed completely or not at all.
func TestCoalescedMany(t *testing.T) {
	s := openAt(t, databasePath(t), engine.Options{})
	testenv.Must(s.CreateSession(t.Context(), ledger.Session{ID: "session", Total: 20, Left: 20, Expires: time.Now().Add(time.Hour)}, nil))(t)
	wants := []struct {
		n, left int64
		ok      bool
	}{{9, 11, true}, {12, 11, false}, {10, 1, true}, {1<<63 - 1, 1, false}, {2, 1, false}, {1, 0, true}, {1, 0, false}}
	g := enginetest.Hold(t, s.db)
	var wg sync.WaitGroup
	for i, want := range wants {
		wg.Go(func() {
			got, err := s.UseSession(t.Context(), "session", want.n, nil)
			if want.ok != (err == nil) || (err != nil && !errors.Is(err, ledger.ErrExhausted)) {
				t.Errorf("use %d of %d: %v", i, want.n, err)
			}
			if got.Left != want.left || got.Used != 20-want.left {
				t.Errorf("use %d of %d: %+v, want %d left", i, want.n, got, want.left)
			}
		})
		waiting(s, i+1)
	}
	g.Queued(1)
	g.Release()
	wg.Wait()
	testenv.Check(t, g.Result())
	if got, err := s.Session(t.Context(), "session"); err != nil || got.Left != 0 || got.Used != 20 {
		t.Errorf("session %+v, %v", got, err)
	}
}

// TestUsePanics makes the clock panic in the transaction for a session's uses: each caller panics,
// and later uses succeed.
func TestUsePanics(t *testing.T) {
	var broken atomic.Bool
	s := openAt(t, databasePath(t), engine.Options{Now: func() time.Time {
		if broken.Load() {
			panic("no time")
		}
		return time.Now()
	}})
	testenv.Must(s.CreateSession(t.Context(), ledger.Session{ID: "session", Total: 9, Left: 9, Expires: time.Now().Add(time.Hour)}, nil))(t)
	g := enginetest.Hold(t, s.db)
	const callers = 3
	panics := make(chan any, callers)
	for range callers {
		go func() {
			defer func() { panics <- recover() }()
			testenv.Check(t, testenv.Error(s.UseSession(context.Background(), "session", 1, nil)))
		}()
	}
	waiting(s, callers)
	g.Queued(1)
	broken.Store(true)
	g.Release()
	for range callers {
		testenv.Equal(t, <-panics, "no time", "the value that a caller recovered")
	}
	testenv.Check(t, g.Result())
	broken.Store(false)
	testenv.Equal(t, testenv.Must(s.UseSession(t.Context(), "session", 1, nil))(t).Left, 8, "a use after the panic")
}

// TestCancelledUse ends a use's context while it waits for the writer: its caller returns, and
// nothing is used.
func TestCancelledUse(t *testing.T) {
	s := openAt(t, databasePath(t), engine.Options{})
	mustCreateSession(t, s, "session", 9)
	g := enginetest.Hold(t, s.db)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := s.UseSession(ctx, "session", 1, nil); left <- err }()
	g.Queued(1)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) { // while the writer is held
		t.Errorf("a cancelled caller: %v", err)
	}
	g.Release()
	testenv.Check(t, g.Result())
	testenv.Equal(t, testenv.Must(s.Session(t.Context(), "session"))(t).Left, 9, "the session of a cancelled caller")
}

// usesWaitForWriters checks that a use with too little patience returns ErrBusy and does not happen
// later. busy occupies every writer until the function that it returns is called.
func usesWaitForWriters(t *testing.T, s *Ledger, busy func() (end func())) {
	t.Helper()
	mustCreateSession(t, s, "session", 3)
	end := busy()
	ctx := database.WithPatience(t.Context(), 100*time.Millisecond)
	for _, use := range []string{"a use that waits for other uses", "another use of the same request"} {
		testenv.Is(t, testenv.Error(s.UseSession(ctx, "session", 1, nil)), database.ErrBusy, "%s", use)
	}
	end()
	testenv.Equal(t, testenv.Must(s.UseSession(t.Context(), "session", 1, nil))(t).Left, 2, "the first use that was not refused")
}

func TestPatienceOfUses(t *testing.T) {
	s := openAt(t, databasePath(t), engine.Options{})
	usesWaitForWriters(t, s, func() func() {
		g := enginetest.Hold(t, s.db)
		return func() {
			g.Release()
			testenv.Check(t, g.Result())
		}
	})
}

func TestPatienceOfUsesPostgres(t *testing.T) {
	dsn := testenv.Postgres(t) + "&pool_max_conns=4&idle_in_transaction_session_timeout=0"
	s := New(enginetest.OpenPostgres(t, dsn, engine.Options{}))
	usesWaitForWriters(t, s, func() func() { return occupy(t, s) })
}

// occupy occupies all of PostgreSQL's writers until release is called.
func occupy(t *testing.T, s *Ledger) (release func()) {
	t.Helper()
	open := make(chan struct{})
	var ended, at sync.WaitGroup
	for range s.db.Stats().Postgres.MaxWriters {
		at.Add(1)
		ended.Go(func() {
			testenv.Check(t, s.in.WriteLocked(context.Background(), func(tx) error {
				at.Done()
				<-open
				return nil
			}))
		})
	}
	at.Wait()
	return func() { close(open); ended.Wait() }
}
