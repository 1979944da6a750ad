//go:build unix

package sqlstore

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
	"sluice/internal/testenv"
	"sluice/ledger"
	"sluice/metastore"
)

// TestPostgresForgottenIsNotRunAgain: a process that was suspended between a COMMIT and the
// query for its outcome finds that its id was deleted, and must not conclude that the
// transaction did not commit.
func TestPostgresForgottenIsNotRunAgain(t *testing.T) {
	t.Run("minutes pass", func(t *testing.T) { testForgotten(t, transactionIDRetention+time.Minute) })
	t.Run("the clock is set back", func(t *testing.T) { testForgotten(t, -transactionIDRetention-time.Minute) })
}

func testForgotten(t *testing.T, passed time.Duration) {
	dsn, set := testenv.MovedPostgres(t, 0)
	var cutting atomic.Bool
	p := newProxy(t, dsn, func() cut {
		if cutting.Load() {
			return cutAfter
		}
		return cutNot
	})
	direct, _ := openNode(t, dsn)
	var begins atomic.Int64
	p.onBegin = func() {
		if n := begins.Add(1); n < 3 || !cutting.Load() {
			return
		}
		cutting.Store(false) // the COMMIT of the use was lost
		set(passed)
		err := direct.db.read(context.Background(), func(t *tx) error {
			_, err := t.exec(`DELETE FROM transactions`)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	s, _ := openNode(t, p.dsn)
	_, err := s.CreateSession(t.Context(), ledger.Session{ID: "session", Total: 3, Left: 3, Expires: time.Now().Add(time.Hour)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cutting.Store(true)
	if _, err := s.UseSession(t.Context(), "session", 1, nil); !errors.Is(err, database.ErrUnknownOutcome) {
		t.Errorf("a use whose id was deleted: %v", err)
	}
	if got, err := direct.Session(t.Context(), "session"); err != nil || got.Used != 1 {
		t.Errorf("%d chunksets were used (%v), want 1", got.Used, err)
	}
}

// holdLease is the job of a child process: it takes a lease, prints a line and never commits.
func holdLease(dsn string) error {
	ctx := context.Background()
	s, err := OpenPostgres(ctx, dsn, Options{})
	if err != nil {
		return err
	}
	return s.db.writeLocked(ctx, func(t *tx) error {
		if err := t.lock("lease", "work"); err != nil {
			return err
		}
		if _, err := s.lease(storeTx{t}, "work", "child", time.Hour); err != nil {
			return err
		}
		fmt.Println("held")
		select {}
	})
}

// queuedWriters is how many writers of a child process wait for the lock that another of them holds.
const queuedWriters = 12

// queueForBlob is the job of a child process: one writer locks a blob's row, prints a line and never
// commits, and others wait for it.
func queueForBlob(dsn string) error {
	s, err := OpenPostgres(context.Background(), dsn, Options{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	_, err = s.CommitBlob(ctx, hotBlob(), nil, func(*metastore.Blob) error {
		for range queuedWriters {
			go func() {
				_, err := s.CommitBlob(ctx, hotBlob(), nil, func(*metastore.Blob) error { return nil })
				fmt.Fprintln(os.Stderr, "a writer that must wait:", err)
			}()
		}
		fmt.Println("held")
		select {}
	})
	return err
}

// hotBlob is the blob that all writers of a test store.
func hotBlob() metastore.Blob {
	return metastore.Blob{Account: "a", Name: "hot", Content: metastore.NewContentID(time.Now())}
}

// startChild runs a job in a child process and returns once the job has printed that it holds its
// lock. The process is killed when the test ends.
func startChild(t *testing.T, job, dsn string) *os.Process {
	t.Helper()
	child := exec.Command(os.Args[0], dsn)
	child.Env = append(os.Environ(), childEnv+"="+job)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := child.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = child.Wait() // the error says that it was killed
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("the child printed %q, %v", line, err)
	}
	return child.Process
}

// locksFreed is the time after which a hung node has no locks, which docs/operations.md promises.
const locksFreed = 5 * time.Second

// TestPostgresHungNode suspends a node during a transaction: its locks are released within
// five seconds.
func TestPostgresHungNode(t *testing.T) {
	dsn := testenv.Postgres(t)
	s, _ := openNode(t, dsn)
	child := startChild(t, "lease", dsn)
	if err := child.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	held, err := s.Lease(database.WithPatience(t.Context(), 25*time.Second), "work", "other", time.Minute)
	if err != nil || !held {
		t.Errorf("the lease after a node hung: %v, %v", held, err)
	}
	t.Logf("the locks were free after %v", time.Since(stopped))
}

// TestPostgresHungQueue suspends a node of which one transaction holds a lock and twelve wait for it.
// They must not inherit it one after another: another node has it within five seconds by the
// server's clock.
func TestPostgresHungQueue(t *testing.T) {
	dsn := testenv.Postgres(t)
	s, _ := openNode(t, dsn)
	watch := connectTo(t, dsn)
	child := startChild(t, "queue", dsn+fmt.Sprintf("&application_name=hung&pool_max_conns=%d", 2*(1+queuedWriters)))
	for waiting := 0; waiting < queuedWriters; {
		waiting = sessionsOf(t, watch, "hung", "wait_event_type = 'Lock'")
	}
	if err := child.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var stopped, had time.Time
	if err := watch.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&stopped); err != nil {
		t.Fatal(err)
	}
	waiting := 0
	_, err := s.CommitBlob(database.WithPatience(t.Context(), time.Minute), hotBlob(), nil, func(*metastore.Blob) error {
		waiting = sessionsOf(t, watch, "hung", "wait_event_type = 'Lock'")
		return watch.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&had)
	})
	if err != nil {
		t.Fatal(err)
	}
	if took := had.Sub(stopped); took > locksFreed || waiting > 0 {
		t.Errorf("the lock was free after %v, with %d sessions of the node still waiting for it, want it within %v with none", took, waiting, locksFreed)
	} else {
		t.Logf("the lock was free after %v", took)
	}
}

// TestPostgresRefusesStandbys: a server that accepts no writes is refused when the store is
// opened and by later connections, also for reads.
func TestPostgresRefusesStandbys(t *testing.T) {
	primary := testenv.StartPostgres(t)
	standby := testenv.StartStandby(t, primary)
	for _, dsn := range []string{standby.DSN(), primary.DSN() + "&default_transaction_read_only=on"} {
		if s, err := OpenPostgres(t.Context(), dsn, Options{Schema: Keep}); err == nil {
			t.Errorf("opened %s (closing: %v)", dsn, s.Close())
		} else {
			t.Log(err)
		}
	}
	p := newProxy(t, primary.DSN()+"&search_path=public", func() cut { return cutNot })
	s, _ := openNode(t, p.dsn)
	if err := s.SetProperty(t.Context(), "name", "value"); err != nil {
		t.Fatal(err)
	}
	p.serveFrom(standby.Socket())
	p.cutAll()
	if _, err := s.Property(database.WithPatience(t.Context(), time.Second), "name"); !errors.Is(err, database.ErrUnavailable) {
		t.Errorf("a read from a standby: %v", err)
	}
	if err := s.SetProperty(database.WithPatience(t.Context(), time.Second), "other", "value"); !errors.Is(err, database.ErrUnavailable) {
		t.Errorf("a write to a standby: %v", err)
	}
	p.serveFrom(primary.Socket())
	if err := s.SetProperty(t.Context(), "other", "value"); err != nil {
		t.Error(err)
	}
}

// TestPostgresCancelledIsRetried: an operator cancels a waiting statement and then terminates
// its session. The call succeeds nevertheless.
func TestPostgresCancelledIsRetried(t *testing.T) {
	dsn := testenv.Postgres(t)
	s, _ := openNode(t, dsn+"&application_name=waiting")
	other, _ := openNode(t, dsn+patientDSN)
	_, err := s.CreateSession(t.Context(), ledger.Session{ID: "session", Total: 3, Left: 3, Expires: time.Now().Add(time.Hour)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
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
	err = other.db.writeLocked(t.Context(), func(t *tx) error {
		if _, err := (moneyTx{t}).liveSession("session"); err != nil {
			return err
		}
		go func() {
			defer close(ended)
			_, useErr = s.UseSession(context.Background(), "session", 1, nil)
		}()
		return errors.Join(interrupt("pg_cancel_backend"), interrupt("pg_terminate_backend"))
	})
	<-ended
	if err := errors.Join(err, useErr, conn.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if got, err := s.Session(t.Context(), "session"); err != nil || got.Used != 1 {
		t.Errorf("%d chunksets were used (%v), want 1", got.Used, err)
	}
}
