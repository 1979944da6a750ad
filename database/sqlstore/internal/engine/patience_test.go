package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice/database"
	"sluice/test/testenv"
)

// short is a call's patience where ErrBusy is expected.
const short = 100 * time.Millisecond

// neverBegins checks that a write and a use with too little patience return ErrBusy and do not
// happen later. busy occupies every writer until the function that it returns is called.
func neverBegins(t *testing.T, s testDB, busy func() (end func())) {
	t.Helper()
	testenv.OK(t, s.setFact(t.Context(), "session", "3"))
	end := busy()
	ctx := database.WithPatience(t.Context(), short)
	err := s.Write(ctx, func(*Tx) error {
		t.Error("a call began that its caller no longer waits for")
		return nil
	})
	testenv.Is(t, err, database.ErrBusy, "a write that waits for other writes")
	testenv.Is(t, testenv.Error(s.use(ctx, "session")), database.ErrBusy, "another call of the same request")
	testenv.Is(t, testenv.Error(s.use(database.WithPatience(t.Context(), short), "session")), database.ErrBusy, "a use that waits for other writes")
	end()
	got, err := s.use(t.Context(), "session")
	if err != nil || got != 2 {
		t.Errorf("the first use that was not refused: %+v, %v", got, err)
	}
}

// Invariant 59.
func TestSQLitePatience(t *testing.T) {
	s := openAt(t, databasePath(t), Options{})
	neverBegins(t, s, func() func() {
		g := holdWriter(t, s)
		return func() {
			close(g.open)
			testenv.Check(t, <-g.result)
		}
	})
}

// Invariant 59.
func TestPostgresPatience(t *testing.T) {
	t.Parallel()
	s, node := openNode(t, testenv.Postgres(t)+"&pool_max_conns=4"+patientDSN)
	neverBegins(t, s, func() func() {
		at, open, results := make(chan struct{}), make(chan struct{}), make(chan error)
		for range cap(node.writeSlots) {
			go func() {
				results <- s.Write(context.Background(), func(*Tx) error {
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
				testenv.Check(t, <-results)
			}
		}
	})
}

// TestPostgresLockPatience: a call that waits too long for the lock of another node returns
// ErrBusy, and its connection is no longer waiting.
// Invariant 59.
func TestPostgresLockPatience(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	s, _ := openNode(t, dsn)
	other, _ := openNode(t, dsn+patientDSN)
	testenv.OK(t, s.setFact(t.Context(), "session", "3"))
	testenv.OK(t, other.WriteLocked(t.Context(), func(t *Tx) error {
		if _, err := readCounter(t, "session", t.ForUpdate()); err != nil {
			return err
		}
		_, err := s.use(database.WithPatience(context.Background(), time.Second), "session")
		if !errors.Is(err, database.ErrBusy) {
			return fmt.Errorf("a use that waits for a lock: %w", err)
		}
		if err := s.Err(); err != nil { // the server was reachable all the time
			return err
		}
		_, err = t.Exec(`UPDATE facts SET value = $2 WHERE name = $1`, []byte("session"), []byte("1"))
		return err
	}))
	got, err := s.use(t.Context(), "session")
	if err != nil || got != 0 {
		t.Errorf("a use after the lock was released: %+v, %v", got, err)
	}
}
