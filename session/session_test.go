package session_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/internal/testclock"
	"sluice/internal/testenv"
	"sluice/ledger"
	"sluice/session"
)

// newServices returns Services over separate handles on one real store, and the clock of all of
// them.
func newServices(t *testing.T, n int, opt session.Options) ([]*session.Service, *testclock.Clock) {
	t.Helper()
	c := testclock.New()
	path := filepath.Join(t.TempDir(), "meta.db")
	var services []*session.Service
	for range n {
		meta, err := sqlstore.OpenSQLite(path, sqlstore.Options{Now: c.Now})
		testenv.OK(t, err)
		t.Cleanup(func() {
			found, err := meta.Audit(context.Background()) // the test's context has ended
			if err = errors.Join(err, meta.Close()); err != nil || len(found) > 0 {
				t.Errorf("at the end: %q, %v", found, err)
			}
		})
		services = append(services, session.New(meta, opt))
	}
	return services, c
}

func newService(t *testing.T, opt session.Options) (*session.Service, *testclock.Clock) {
	t.Helper()
	services, c := newServices(t, 1, opt)
	return services[0], c
}

func grant(t *testing.T, s *session.Service) ledger.Session {
	t.Helper()
	made, err := s.Grant(t.Context(), "me", nil)
	testenv.OK(t, err)
	return made
}

// check fails the test unless the session has these numbers left and used.
func check(t *testing.T, got ledger.Session, err error, left, used int64) {
	t.Helper()
	if err != nil || got.Left != left || got.Used != used || got.Total != left+used {
		t.Errorf("%+v, %v, want %d left and %d used", got, err, left, used)
	}
}

func TestGrant(t *testing.T) {
	s, c := newService(t, session.Options{Grant: session.DefaultGrant})
	got := grant(t, s)
	want := ledger.Session{
		ID: got.ID, UserIdentity: "me", Total: 1_000, Left: 1_000, Created: c.Now(), Expires: c.Now().Add(session.DefaultTTL),
	}
	if got.ID == "" || got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if found, err := s.Get(t.Context(), got.ID); err != nil || found != want {
		t.Errorf("%+v, %v, want %+v", found, err, want)
	}
	if other := grant(t, s); other.ID == got.ID {
		t.Error("two sessions are the same")
	}
}

// lostResults is a store that creates sessions but loses the result.
type lostResults struct{ session.Store }

// CreateSession creates a session, and returns an unknown outcome.
func (s lostResults) CreateSession(ctx context.Context, made ledger.Session, idem *ledger.Idempotency) (ledger.Session, error) {
	if _, err := s.Store.CreateSession(ctx, made, idem); err != nil {
		return ledger.Session{}, err
	}
	return ledger.Session{}, database.ErrUnknownOutcome
}

// TestGrantOfUnknownOutcome checks that without an idempotency key the ID is returned by which the
// session can be looked up. With a key the session may be another one, made before, so no ID is
// returned.
func TestGrantOfUnknownOutcome(t *testing.T) {
	meta, err := sqlstore.OpenSQLite(filepath.Join(t.TempDir(), "meta.db"), sqlstore.Options{})
	testenv.OK(t, err)
	defer func() {
		if err := meta.Close(); err != nil {
			t.Error(err)
		}
	}()
	s := session.New(lostResults{meta}, session.Options{Grant: 3})
	got, err := s.Grant(t.Context(), "me", nil)
	if !errors.Is(err, database.ErrUnknownOutcome) || got.ID == "" || got != (ledger.Session{ID: got.ID}) {
		t.Fatalf("%+v, %v, want an ID alone and an unknown outcome", got, err)
	}
	if found, err := s.Get(t.Context(), got.ID); err != nil || found.Left != 3 {
		t.Errorf("the session: %+v, %v", found, err)
	}
	got, err = s.Grant(t.Context(), "me", &ledger.Idempotency{Scope: "grant", Key: "k"})
	if !errors.Is(err, database.ErrUnknownOutcome) || got != (ledger.Session{}) {
		t.Errorf("with a key: %+v, %v, want no session", got, err)
	}
}

// TestSpaceForIdempotencyKeys checks that without free space nothing is granted and no key is
// stored. A use without a key needs no space and succeeds.
func TestSpaceForIdempotencyKeys(t *testing.T) {
	full, errFull := false, errors.New("full")
	s, _ := newService(t, session.Options{Grant: 3, Space: func(int64) error {
		if full {
			return errFull
		}
		return nil
	}})
	id := grant(t, s).ID
	full = true
	if _, err := s.Grant(t.Context(), "me", nil); !errors.Is(err, errFull) {
		t.Errorf("a grant without space: %v", err)
	}
	if _, err := s.Use(t.Context(), id, 1, &ledger.Idempotency{Scope: "use", Key: "k"}); !errors.Is(err, errFull) {
		t.Errorf("a use with a key without space: %v", err)
	}
	used, err := s.Use(t.Context(), id, 1, nil)
	check(t, used, err, 2, 1)
}

func TestSessionExpires(t *testing.T) {
	for name, c := range map[string]struct{ set, lives time.Duration }{
		"by default": {0, 30 * 24 * time.Hour},
		"as set":     {time.Minute, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			s, clock := newService(t, session.Options{Grant: 10, TTL: c.set})
			made := grant(t, s)
			clock.Advance(c.lives - time.Microsecond)
			used, err := s.Use(ctx, made.ID, 2, nil)
			check(t, used, err, 8, 2)
			if err := s.Live(ctx, made.ID); err != nil {
				t.Errorf("just before: %v", err)
			}
			clock.Advance(time.Microsecond)
			if _, err := s.Use(ctx, made.ID, 1, nil); !errors.Is(err, database.ErrExpired) {
				t.Errorf("at its expiry: %v", err)
			}
			if err := s.Live(ctx, made.ID); !errors.Is(err, database.ErrExpired) {
				t.Errorf("at its expiry: %v", err)
			}
			got, err := s.Get(ctx, made.ID)
			check(t, got, err, 8, 2)
			// A chunkset that was not served is still returned.
			got, err = s.Return(ctx, made.ID, 1, "r")
			check(t, got, err, 9, 1)
			clock.Advance(ledger.SessionRetention)
			for what, err := range map[string]error{
				"get":    second(s.Get(ctx, made.ID)),
				"live":   s.Live(ctx, made.ID),
				"use":    second(s.Use(ctx, made.ID, 1, nil)),
				"return": second(s.Return(ctx, made.ID, 1, "s")),
			} {
				if !errors.Is(err, database.ErrNotFound) {
					t.Errorf("%s after its retention: %v", what, err)
				}
			}
		})
	}
}

func second(_ ledger.Session, err error) error { return err }

func TestSessionsMustBePaidForWhereNoneAreGranted(t *testing.T) {
	s, _ := newService(t, session.Options{})
	if _, err := s.Grant(t.Context(), "", nil); !errors.Is(err, session.ErrPaymentRequired) {
		t.Errorf("error %v, want %v", err, session.ErrPaymentRequired)
	}
}

func TestRepeatedGrantIsOneSession(t *testing.T) {
	s, _ := newService(t, session.Options{Grant: 5})
	idem := &ledger.Idempotency{Scope: "s", Key: "k"}
	first, err := s.Grant(t.Context(), "", idem)
	testenv.OK(t, err)
	again, err := s.Grant(t.Context(), "", idem)
	if err != nil || again != first {
		t.Errorf("%+v, %v, want %+v", again, err, first)
	}
	if _, err := s.Grant(t.Context(), "", &ledger.Idempotency{Scope: "s", Key: "k", Hash: [32]byte{1}}); !errors.Is(err, ledger.ErrIdempotencyReuse) {
		t.Errorf("another request: %v", err)
	}
}

func TestUseTakesAllOrNothing(t *testing.T) {
	ctx := t.Context()
	for name, key := range map[string]func(string) *ledger.Idempotency{
		"plain":    func(string) *ledger.Idempotency { return nil },
		"with key": func(k string) *ledger.Idempotency { return &ledger.Idempotency{Scope: "use", Key: k} },
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newService(t, session.Options{Grant: 10})
			made := grant(t, s)
			got, err := s.Use(ctx, made.ID, 7, key("a"))
			check(t, got, err, 3, 7)
			got, err = s.Use(ctx, made.ID, 4, key("b"))
			if !errors.Is(err, ledger.ErrExhausted) {
				t.Errorf("4 of 3: %v", err)
			}
			check(t, got, nil, 3, 7) // returned together with the error
			got, err = s.Use(ctx, made.ID, 3, key("b"))
			check(t, got, err, 0, 10)
			got, err = s.Use(ctx, made.ID, 1, key("c"))
			if !errors.Is(err, ledger.ErrExhausted) {
				t.Errorf("1 of 0: %v", err)
			}
			check(t, got, nil, 0, 10)
			for _, n := range []int64{0, -1, -1 << 63} {
				if _, err := s.Use(ctx, made.ID, n, key("d")); err == nil {
					t.Errorf("%d were used", n)
				}
			}
			if _, err := s.Use(ctx, "unknown", 1, key("e")); !errors.Is(err, database.ErrNotFound) {
				t.Errorf("of an unknown session: %v", err)
			}
			got, err = s.Get(ctx, made.ID)
			check(t, got, err, 0, 10)
		})
	}
}

func TestRepeatedUseDeductsOnce(t *testing.T) {
	ctx := t.Context()
	s, clock := newService(t, session.Options{Grant: 10})
	made := grant(t, s)
	idem := &ledger.Idempotency{Scope: "use", Key: "k"}
	for range 3 {
		got, err := s.Use(ctx, made.ID, 4, idem)
		check(t, got, err, 6, 4)
	}
	if _, err := s.Use(ctx, made.ID, 4, &ledger.Idempotency{Scope: "use", Key: "k", Hash: [32]byte{1}}); !errors.Is(err, ledger.ErrIdempotencyReuse) {
		t.Errorf("another request: %v", err)
	}
	got, err := s.Use(ctx, made.ID, 5, nil)
	check(t, got, err, 1, 9)
	got, err = s.Use(ctx, made.ID, 4, idem) // the first result, not the current state
	check(t, got, err, 6, 4)
	clock.Advance(ledger.IdempotencyRetention)
	if _, err := s.Use(ctx, made.ID, 4, idem); !errors.Is(err, ledger.ErrExhausted) {
		t.Errorf("a day later it is a new use: %v", err)
	}
}

func TestReturnCountsOnce(t *testing.T) {
	ctx := t.Context()
	s, _ := newService(t, session.Options{Grant: 10})
	made := grant(t, s)
	got, err := s.Use(ctx, made.ID, 9, nil)
	check(t, got, err, 1, 9)
	for _, step := range []struct {
		request       string
		n, left, used int64
	}{{"a", 4, 5, 5}, {"a", 4, 5, 5}, {"b", 4, 9, 1}, {"a", 4, 9, 1}} {
		got, err = s.Return(ctx, made.ID, step.n, step.request)
		check(t, got, err, step.left, step.used)
	}
	for _, n := range []int64{2, 0, -1, -1 << 63, 1<<63 - 1} {
		if _, err := s.Return(ctx, made.ID, n, "c"); err == nil {
			t.Errorf("%d were returned of 1", n)
		}
	}
	got, err = s.Return(ctx, made.ID, 1, "c") // a refusal is not stored
	check(t, got, err, 10, 0)
	// The returns of another session are independent.
	other := grant(t, s)
	if _, err := s.Use(ctx, other.ID, 5, nil); err != nil {
		t.Fatal(err)
	}
	got, err = s.Return(ctx, other.ID, 5, "a")
	check(t, got, err, 10, 0)
}

// TestConcurrentUses uses a session that has 100 chunksets 200 times at once, over two handles:
// exactly 100 uses succeed, each with another count.
func TestConcurrentUses(t *testing.T) {
	services, _ := newServices(t, 2, session.Options{Grant: 100})
	made := grant(t, services[0])
	got, errs := make([]ledger.Session, 200), make([]error, 200)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range got {
		var idem *ledger.Idempotency
		if i%5 == 0 { // these take another path through the store
			idem = &ledger.Idempotency{Scope: "use", Key: fmt.Sprint(i)}
		}
		wg.Go(func() {
			<-start
			got[i], errs[i] = services[i%2].Use(t.Context(), made.ID, 1, idem)
		})
	}
	close(start)
	wg.Wait()
	seen := map[int64]bool{}
	for i, err := range errs {
		switch {
		case err == nil && !seen[got[i].Left] && got[i].Left >= 0 && got[i].Left < 100:
			seen[got[i].Left] = true
		case err == nil:
			t.Errorf("use %d: %+v was returned to another use", i, got[i])
		case !errors.Is(err, ledger.ErrExhausted):
			t.Errorf("use %d: %v", i, err)
		}
	}
	if len(seen) != 100 {
		t.Errorf("%d uses succeeded, want 100", len(seen))
	}
	now, err := services[1].Get(t.Context(), made.ID)
	check(t, now, err, 0, 100)
}

// TestStats counts what succeeds, and nothing else.
func TestStats(t *testing.T) {
	s, _ := newService(t, session.Options{Grant: 5})
	made := grant(t, s)
	for _, n := range []int64{2, 9} { // 9 are not left
		if _, err := s.Use(t.Context(), made.ID, n, nil); (err == nil) != (n == 2) {
			t.Errorf("use of %d: %v", n, err)
		}
	}
	if _, err := s.Charge(t.Context(), made.ID, 1, "charge"); err != nil {
		t.Error(err)
	}
	if got, want := s.Stats(), (session.Stats{Granted: 1, Uses: 2, Chunksets: 3}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}
