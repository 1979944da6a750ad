//go:build unix

package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/database"
	"sluice/database/sqlstore/internal/pgproxy"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// TestPostgresForgottenIsNotRunAgain: a process is suspended between a COMMIT and the query for its
// outcome, and the id is deleted meanwhile. The process must not conclude that the transaction did
// not commit.
// Invariant 80.
func TestPostgresForgottenIsNotRunAgain(t *testing.T) {
	t.Parallel()
	t.Run("minutes pass", func(t *testing.T) { testForgotten(t, transactionIDRetention+time.Minute) })
	t.Run("the clock is set back", func(t *testing.T) { testForgotten(t, -transactionIDRetention-time.Minute) })
}

func testForgotten(t *testing.T, passed time.Duration) {
	dsn, set := testenv.MovedPostgres(t, 0)
	var cutting atomic.Bool
	p := pgproxy.New(t, dsn, func() fault.Kind {
		if cutting.Load() {
			return fault.Lose
		}
		return fault.None
	})
	direct, _ := openNode(t, dsn)
	var begins atomic.Int64
	p.OnBegin = func() {
		if n := begins.Add(1); n < 3 || !cutting.Load() {
			return
		}
		cutting.Store(false) // the use's COMMIT was lost
		set(passed)
		err := direct.Read(context.Background(), func(t *Tx) error {
			_, err := t.Exec(`DELETE FROM transactions`)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	s, _ := openNode(t, p.DSN)
	testenv.OK(t, s.setFact(t.Context(), "session", "3"))
	cutting.Store(true)
	testenv.Is(t, testenv.Error(s.use(t.Context(), "session")), database.ErrUnknownOutcome, "a use whose id was deleted")
	if got, err := direct.left(t.Context(), "session"); err != nil || got != 2 {
		t.Errorf("%d are left of 3 (%v), want 2", got, err)
	}
}

// queuedWriters is how many writers in a child process wait for the lock that another writer holds.
const queuedWriters = 12

// queueForLock is a child process's job: one writer holds a lock, prints a line and never commits,
// and more writers wait for it.
func queueForLock(dsn string) error {
	s, err := openNodeDB(context.Background(), dsn, Options{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	return s.WriteLocked(ctx, func(t *Tx) error {
		if err := hold(t, hotLock); err != nil {
			return err
		}
		for range queuedWriters {
			go func() {
				err := s.WriteLocked(ctx, func(t *Tx) error { return hold(t, hotLock) })
				fmt.Fprintln(os.Stderr, "a writer that must wait:", err)
			}()
		}
		fmt.Println("held")
		select {}
	})
}

// hotLock is the lock that a test's writers all take.
const hotLock = "hot"

// startQueue runs queueForLock in a child process and returns once it has printed that it holds the
// lock. The process is killed when the test ends.
func startQueue(t *testing.T, dsn string) *os.Process {
	t.Helper()
	child := exec.Command(os.Args[0], dsn)
	child.Env = append(os.Environ(), childEnv+"=queue")
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	testenv.OK(t, err)
	t.Cleanup(func() {
		testenv.Check(t, child.Process.Kill())
		_ = child.Wait() // the error is that it was killed
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("the child printed %q, %v", line, err)
	}
	return child.Process
}

// locksFreed is the time after which a hung node has no locks, which docs/operations.md promises.
const locksFreed = 5 * time.Second

// TestPostgresHungQueue suspends a node while one of its transactions holds a lock and twelve more
// wait for it. They must not inherit it one after another: another node has it within five seconds
// by the server's clock.
// Invariant 90.
func TestPostgresHungQueue(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	s, _ := openNode(t, dsn)
	watch := connectTo(t, dsn)
	child := startQueue(t, dsn+fmt.Sprintf("&application_name=hung&pool_max_conns=%d", 2*(1+queuedWriters)))
	for waiting := 0; waiting < queuedWriters; {
		waiting = sessionsOf(t, watch, "hung", "wait_event_type = 'Lock'")
	}
	testenv.OK(t, child.Signal(syscall.SIGSTOP))
	var stopped, had time.Time
	testenv.OK(t, watch.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&stopped))
	waiting := 0
	testenv.OK(t, s.WriteLocked(database.WithPatience(t.Context(), time.Minute), func(tx *Tx) error {
		if err := hold(tx, hotLock); err != nil {
			return err
		}
		waiting = sessionsOf(t, watch, "hung", "wait_event_type = 'Lock'")
		return watch.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&had)
	}))
	if took := had.Sub(stopped); took > locksFreed || waiting > 0 {
		t.Errorf("the lock was free after %v, with %d sessions of the node still waiting for it, want it within %v with none", took, waiting, locksFreed)
	} else {
		t.Logf("the lock was free after %v", took)
	}
}

// TestPostgresRefusesStandbys: a server that accepts no writes is refused when the store is
// opened and by later connections, also for reads.
// Invariant 81.
func TestPostgresRefusesStandbys(t *testing.T) {
	t.Parallel()
	primary := testenv.StartPostgres(t)
	standby := testenv.StartStandby(t, primary)
	for _, dsn := range []string{standby.DSN(), primary.DSN() + "&default_transaction_read_only=on"} {
		if s, err := openNodeDB(t.Context(), dsn, Options{Schema: Keep}); err == nil {
			t.Errorf("opened %s (closing: %v)", dsn, s.Close())
		} else {
			t.Log(err)
		}
	}
	p := pgproxy.New(t, primary.DSN()+"&search_path=public", func() fault.Kind { return fault.None })
	s, _ := openNode(t, p.DSN)
	testenv.OK(t, s.setFact(t.Context(), "name", "value"))
	p.ServeFrom(standby.Socket())
	p.CutAll()
	testenv.Is(t, testenv.Error(s.fact(database.WithPatience(t.Context(), time.Second), "name")), database.ErrUnavailable, "a read from a standby")
	testenv.Is(t, s.setFact(database.WithPatience(t.Context(), time.Second), "other", "value"), database.ErrUnavailable, "a write to a standby")
	p.ServeFrom(primary.Socket())
	testenv.Check(t, s.setFact(t.Context(), "other", "value"))
}

// TestPostgresCancelledIsRetried: an operator cancels a waiting statement and then terminates
// its session. The call succeeds nevertheless.
func TestPostgresCancelledIsRetried(t *testing.T) {
	dsn := testenv.Postgres(t)
	s, _ := openNode(t, dsn+"&application_name=waiting")
	other, _ := openNode(t, dsn+patientDSN)
	testenv.OK(t, s.setFact(t.Context(), "session", "3"))
	conn := testenv.Must(pgx.Connect(t.Context(), dsn))(t)
	var useErr error
	ended := make(chan struct{})
	var last time.Time // when the statement that was interrupted last began
	interrupt := func(how string) error {
		for { // until it waits again
			err := conn.QueryRow(t.Context(), `SELECT query_start, `+how+`(pid) FROM pg_stat_activity
				WHERE application_name = 'waiting' AND wait_event_type = 'Lock' AND query_start > $1`, last).Scan(&last, nil)
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			select {
			case <-ended:
				return fmt.Errorf("before %s: the use no longer waits", how)
			default:
			}
		}
	}
	err := other.WriteLocked(t.Context(), func(t *Tx) error {
		if _, err := readCounter(t, "session", t.ForUpdate()); err != nil {
			return err
		}
		go func() {
			defer close(ended)
			_, useErr = s.use(context.Background(), "session")
		}()
		return errors.Join(interrupt("pg_cancel_backend"), interrupt("pg_terminate_backend"))
	})
	<-ended
	testenv.Check(t, errors.Join(err, useErr, conn.Close(t.Context())))
	if got, err := s.left(t.Context(), "session"); err != nil || got != 2 {
		t.Errorf("%d are left of 3 (%v), want 2", got, err)
	}
}
