package session_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"sluice/metastore"
	"sluice/metastore/sqlstore"
	"sluice/session"
)

// newService gives a Service over a real store, and the clock of both.
func newService(t *testing.T, opt session.Options) (*session.Service, *atomic.Int64) {
	t.Helper()
	clock := &atomic.Int64{}
	clock.Store(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC).UnixNano())
	opt.Now = func() time.Time { return time.Unix(0, clock.Load()) }
	meta, err := sqlstore.OpenSQLite(filepath.Join(t.TempDir(), "meta.db"), sqlstore.Options{Now: opt.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := meta.Close(); err != nil {
			t.Error(err)
		}
	})
	return session.New(meta, opt), clock
}

func TestSessionExpiresAfter30Days(t *testing.T) {
	ctx := context.Background()
	s, clock := newService(t, session.Options{Grant: session.DefaultGrant})
	made, err := s.Grant(ctx, "me", nil)
	if err != nil || made.Left != 1_000 || made.Total != 1_000 || made.UserIdentity != "me" {
		t.Fatalf("%+v, %v", made, err)
	}
	clock.Add(int64(30*24*time.Hour) - 1_000)
	if used, err := s.Use(ctx, made.ID, nil); err != nil || used.Left != 999 {
		t.Errorf("just before: %+v, %v", used, err)
	}
	clock.Add(1_000)
	if _, err := s.Use(ctx, made.ID, nil); !errors.Is(err, metastore.ErrExpired) {
		t.Errorf("at its expiry: %v", err)
	}
	if got, err := s.Get(ctx, made.ID); err != nil || got.Left != 999 {
		t.Errorf("it is still remembered: %+v, %v", got, err)
	}
	clock.Add(int64(metastore.SessionMemory))
	if _, err := s.Get(ctx, made.ID); !errors.Is(err, metastore.ErrNotFound) {
		t.Errorf("30 days later: %v", err)
	}
}

func TestSessionsMustBePaidForWhereNoneAreGranted(t *testing.T) {
	s, _ := newService(t, session.Options{})
	if _, err := s.Grant(context.Background(), "", nil); !errors.Is(err, session.ErrPaymentRequired) {
		t.Errorf("error %v, want %v", err, session.ErrPaymentRequired)
	}
}

func TestRepeatedGrantIsOneSession(t *testing.T) {
	ctx := context.Background()
	s, _ := newService(t, session.Options{Grant: 5})
	idem := &metastore.Idempotency{Scope: "s", Key: "k"}
	first, err := s.Grant(ctx, "", idem)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Grant(ctx, "", idem)
	if err != nil || again.ID != first.ID {
		t.Errorf("%+v, %v, want session %s", again, err, first.ID)
	}
}
