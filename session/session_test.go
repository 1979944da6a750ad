package session_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/ledger"
	"sluice/session"
	"sluice/test/testclock"
	"sluice/test/testenv"
)

// newServices returns Services over separate handles on one real store, and the clock of all of
// them.
func newServices(t *testing.T, n int, opt session.Options) ([]*session.Service, *testclock.Clock) {
	t.Helper()
	c := testclock.New()
	path := filepath.Join(t.TempDir(), "meta.db")
	var services []*session.Service
	for range n {
		meta := testenv.Must(sqlstore.OpenSQLite(path, sqlstore.Options{Now: c.Now}))(t)
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
	made := testenv.Must(s.Grant(t.Context(), "me", nil))(t)
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
	testenv.Is(t, testenv.Error(s.Grant(t.Context(), "me", nil)), errFull, "a grant without space")
	_, err := s.Use(t.Context(), id, 1, &database.Idempotency{Scope: "use", Key: "k"})
	testenv.Is(t, err, errFull, "a use with a key without space")
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
			testenv.Is(t, s.Live(ctx, made.ID), nil, "just before")
			clock.Advance(time.Microsecond)
			testenv.Is(t, testenv.Error(s.Use(ctx, made.ID, 1, nil)), database.ErrExpired, "at its expiry")
			testenv.Is(t, s.Live(ctx, made.ID), database.ErrExpired, "at its expiry")
			got, err := s.Get(ctx, made.ID)
			check(t, got, err, 8, 2)
			// A chunkset that was not served is still returned.
			got, err = s.Return(ctx, made.ID, 1, "r")
			check(t, got, err, 9, 1)
			clock.Advance(ledger.SessionRetention)
			for label, err := range map[string]error{
				"get":    testenv.Error(s.Get(ctx, made.ID)),
				"live":   s.Live(ctx, made.ID),
				"use":    testenv.Error(s.Use(ctx, made.ID, 1, nil)),
				"return": testenv.Error(s.Return(ctx, made.ID, 1, "s")),
			} {
				testenv.Is(t, err, database.ErrNotFound, "%s after its retention", label)
			}
		})
	}
}

func TestSessionsMustBePaidForWhereNoneAreGranted(t *testing.T) {
	s, _ := newService(t, session.Options{})
	testenv.Is(t, testenv.Error(s.Grant(t.Context(), "", nil)), session.ErrPaymentRequired, "a grant")
}

// TestOnlyPositiveCounts checks that no other count of chunksets is used or returned.
func TestOnlyPositiveCounts(t *testing.T) {
	s, _ := newService(t, session.Options{Grant: 10})
	id := grant(t, s).ID
	testenv.Must(s.Use(t.Context(), id, 3, nil))(t)
	key := &database.Idempotency{Scope: "use", Key: "k"}
	for _, n := range []int64{0, -1, -1 << 63} {
		for label, err := range map[string]error{
			"used":            testenv.Error(s.Use(t.Context(), id, n, nil)),
			"used with a key": testenv.Error(s.Use(t.Context(), id, n, key)),
			"returned":        testenv.Error(s.Return(t.Context(), id, n, "r")),
		} {
			if err == nil {
				t.Errorf("%d were %s", n, label)
			}
		}
	}
	got, err := s.Get(t.Context(), id)
	check(t, got, err, 7, 3)
}

// TestStats checks that only successes are counted.
func TestStats(t *testing.T) {
	s, _ := newService(t, session.Options{Grant: 5})
	made := grant(t, s)
	for _, n := range []int64{2, 9} { // 9 are not left
		if _, err := s.Use(t.Context(), made.ID, n, nil); (err == nil) != (n == 2) {
			t.Errorf("use of %d: %v", n, err)
		}
	}
	testenv.Check(t, testenv.Error(s.Charge(t.Context(), made.ID, 1, "charge")))
	testenv.Equal(t, s.Stats(), session.Stats{Granted: 1, Uses: 2, Chunksets: 3}, "counts")
}
