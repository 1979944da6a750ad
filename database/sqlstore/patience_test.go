package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice/database"
	"sluice/internal/testenv"
	"sluice/ledger"
)

// short is the patience of a call that is expected to return ErrBusy.
const short = 100 * time.Millisecond

// neverBegins checks that a write and a use of a session whose patience is too short return
// ErrBusy and do not happen later. busy occupies every writer until the function that it
// returns is called.
func neverBegins(t *testing.T, s *Store, busy func() (end func())) {
	t.Helper()
	_, err := s.CreateSession(t.Context(), ledger.Session{ID: "session", Total: 3, Left: 3, Expires: time.Now().Add(time.Hour)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	end := busy()
	ctx := database.WithPatience(t.Context(), short)
	err = s.db.write(ctx, func(*tx) error {
		t.Error("a call began that its caller no longer waits for")
		return nil
	})
	if !errors.Is(err, database.ErrBusy) {
		t.Errorf("a write that waits for others: %v", err)
	}
	if _, err := s.UseSession(ctx, "session", 1, nil); !errors.Is(err, database.ErrBusy) {
		t.Errorf("another call of the same request: %v", err)
	}
	if _, err := s.UseSession(database.WithPatience(t.Context(), short), "session", 1, nil); !errors.Is(err, database.ErrBusy) {
		t.Errorf("a use that waits for others: %v", err)
	}
	end()
	got, err := s.UseSession(t.Context(), "session", 1, nil)
	if err != nil || got.Left != 2 {
		t.Errorf("the first use that was not refused: %+v, %v", got, err)
	}
}

func TestSQLitePatience(t *testing.T) {
	s := openAt(t, databasePath(t), Options{})
	neverBegins(t, s, func() func() {
		g := holdWriter(t, s)
		return func() {
			close(g.open)
			if err := <-g.result; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestPostgresPatience(t *testing.T) {
	s, node := openNode(t, testenv.Postgres(t)+"&pool_max_conns=4"+patientDSN)
	neverBegins(t, s, func() func() {
		at, open, results := make(chan struct{}), make(chan struct{}), make(chan error)
		for range cap(node.writeSlots) {
			go func() {
				results <- s.db.write(context.Background(), func(*tx) error {
					at <- struct{}{}
					<-open
					return nil
				})
			}()
			<-at
		}
		return func() {
			close(open)
			for range cap(node.writeSlots) {
				if err := <-results; err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestPostgresLockPatience: a call that waits too long for the lock of another node returns
// ErrBusy, and its connection is no longer waiting.
func TestPostgresLockPatience(t *testing.T) {
	dsn := testenv.Postgres(t)
	s, _ := openNode(t, dsn)
	other, _ := openNode(t, dsn+patientDSN)
	_, err := s.CreateSession(t.Context(), ledger.Session{ID: "session", Total: 3, Left: 3, Expires: time.Now().Add(time.Hour)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = other.db.writeLocked(t.Context(), func(t *tx) error {
		if _, err := (moneyTx{t}).liveSession("session"); err != nil {
			return err
		}
		_, err := s.UseSession(database.WithPatience(context.Background(), time.Second), "session", 1, nil)
		if !errors.Is(err, database.ErrBusy) {
			return fmt.Errorf("a use that waits for a lock: %w", err)
		}
		if err := s.Err(); err != nil { // the server was reachable all the time
			return err
		}
		_, err = t.exec(`UPDATE sessions SET remaining = remaining - 2 WHERE id = $1`, []byte("session"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.UseSession(t.Context(), "session", 1, nil)
	if err != nil || got.Left != 0 {
		t.Errorf("a use after the lock was released: %+v, %v", got, err)
	}
}
