package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/database"
	"sluice/test/testenv"
)

// openWithWriter opens a database and returns it with its writer.
func openWithWriter(t *testing.T, path string) (testDB, *writer) {
	t.Helper()
	s, e := openWithEngine(t, path, Options{})
	return s, e.writer
}

func insertFact(name string) func(*Tx) error {
	return func(t *Tx) error {
		_, err := t.Exec(`INSERT INTO facts (name, value) VALUES ($1, $2)`, []byte(name), []byte("v"))
		return err
	}
}

var errPoison = errors.New("poison")

// TestPoisonedBatch runs calls that fail in every way in one batch with calls that succeed.
func TestPoisonedBatch(t *testing.T) {
	s, w := openWithWriter(t, databasePath(t))
	g := holdWriter(t, s)
	type result struct {
		name string
		err  error
	}
	results := make(chan result, 100)
	calls := 0
	call := func(name string, fn func(*Tx) error) {
		calls++
		go func() {
			defer func() {
				if p := recover(); p != nil {
					results <- result{name, fmt.Errorf("panic: %v", p)}
				}
			}()
			results <- result{name, s.Write(context.Background(), fn)}
		}()
	}
	var runs atomic.Int64
	for i := range 10 {
		call(fmt.Sprint("good", i), func(t *Tx) error {
			runs.Add(1)
			return insertFact(fmt.Sprint("good", i))(t)
		})
	}
	call("before a change", func(*Tx) error { return errPoison })
	call("after a change", func(t *Tx) error {
		if err := insertFact("after a change")(t); err != nil {
			return err
		}
		return errPoison
	})
	call("bad statement", func(t *Tx) error {
		if err := insertFact("bad statement")(t); err != nil {
			return err
		}
		_, err := t.Exec(`INSERT INTO nowhere VALUES ($1)`, int64(1))
		return err
	})
	call("unique", func(t *Tx) error {
		return errors.Join(insertFact("unique")(t), insertFact("unique")(t))
	})
	call("panic", func(t *Tx) error {
		if err := insertFact("panic")(t); err != nil {
			return err
		}
		panic("poison")
	})
	call("leaves the transaction", func(t *Tx) error { // as SQLite does on some errors
		if err := errors.Join(insertFact("leaves the transaction")(t), t.conn.(*sqliteConn).run("ROLLBACK")); err != nil {
			return err
		}
		_, err := t.Exec(`INSERT INTO nowhere VALUES ($1)`, int64(1))
		return err
	})
	for i := 10; i < 20; i++ {
		call(fmt.Sprint("good", i), insertFact(fmt.Sprint("good", i)))
	}
	queued(w, calls)
	close(g.open)
	testenv.Is(t, <-g.result, nil, "the call at the head of the batch")
	for range calls {
		r := <-results
		_, err := s.fact(t.Context(), r.name)
		good := strings.HasPrefix(r.name, "good")
		switch {
		case good && (r.err != nil || err != nil):
			t.Errorf("%s was affected: %v; its fact: %v", r.name, r.err, err)
		case !good && (r.err == nil || !errors.Is(err, database.ErrNotFound)):
			t.Errorf("%q: %v; its fact: %v", r.name, r.err, err)
		}
		switch r.name {
		case "before a change", "after a change":
			if r.err != errPoison { //nolint:errorlint // returned as it is
				t.Errorf("%s: %v", r.name, r.err)
			}
		case "unique":
			testenv.Is(t, r.err, database.ErrExists, "%s", r.name)
		}
	}
	if n := runs.Load(); n < 10 || n > 20 {
		t.Errorf("10 closures ran %d times", n)
	}
	testenv.Is(t, s.setFact(t.Context(), "later", "v"), nil, "after the batch")
}

// TestCallersCancel ends the contexts of waiting calls and of one that runs.
func TestCallersCancel(t *testing.T) {
	s, w := openWithWriter(t, databasePath(t))
	testenv.OK(t, s.setFact(t.Context(), "session", "9"))
	g := holdWriter(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 2)
	go func() { left <- s.setFact(ctx, "left", "v") }()
	go func() { _, err := s.use(ctx, "session"); left <- err }()
	stays := make(chan error, 1)
	go func() { stays <- s.setFact(context.Background(), "stays", "v") }()
	queued(w, 3)
	cancel()
	for range 2 { // they return while the writer is held
		testenv.Is(t, <-left, context.Canceled, "a cancelled caller")
	}
	close(g.open)
	testenv.Check(t, errors.Join(<-g.result, <-stays))
	testenv.Is(t, testenv.Error(s.fact(t.Context(), "left")), database.ErrNotFound, "the fact of a cancelled caller")
	testenv.Equal(t, testenv.Must(s.left(t.Context(), "session"))(t), 9, "the session of a cancelled caller")

	ctx, cancel = context.WithCancel(t.Context())
	err := s.Write(ctx, func(t *Tx) error {
		cancel()
		return insertFact("begun")(t)
	})
	testenv.Is(t, err, nil, "a call whose context ended after it had begun")
	testenv.Check(t, testenv.Error(s.fact(t.Context(), "begun")))
}

// TestBusy holds the write lock on another connection for longer than SQLite waits.
func TestBusy(t *testing.T) {
	path := databasePath(t)
	s, w := openWithWriter(t, path)
	other := testenv.Must(openSQLiteConn(path, 0, nil))(t)
	defer closeConn(t, other)
	testenv.OK(t, other.run(sqliteBegin))
	ctx, cancel := context.WithCancel(t.Context())
	leaver, stayer := make(chan error, 1), make(chan error, 1)
	go func() { leaver <- s.setFact(ctx, "leaver", "v") }()
	go func() { stayer <- s.setFact(context.Background(), "stayer", "v") }()
	queued(w, 2)
	cancel()
	testenv.Is(t, <-leaver, context.Canceled, "a caller that was cancelled during a busy database")
	timer := time.NewTimer(busyTimeout + busyTimeout/4) // SQLite gives up at least once
	defer timer.Stop()
	select {
	case err := <-stayer:
		t.Fatalf("a write while the lock is held: %v", err)
	case <-timer.C:
	}
	testenv.Is(t, testenv.Error(s.fact(t.Context(), "stayer")), database.ErrNotFound, "a read while the lock is held")
	testenv.OK(t, other.run("COMMIT"))
	testenv.Is(t, <-stayer, nil, "a write after the lock was released")
}

// TestReadCancelled ends a read's context while it waits for a connection.
func TestReadCancelled(t *testing.T) {
	s := openAt(t, databasePath(t), Options{Readers: 1})
	entered, open, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		result <- s.Read(ctx, func(t *Tx) error {
			close(entered)
			<-open
			var one Integer
			_, err := t.Row("SELECT 1", nil, &one)
			return err
		})
	}()
	<-entered
	cancel()
	testenv.Is(t, testenv.Error(s.fact(ctx, "fact")), context.Canceled, "a read that waits")
	close(open)
	testenv.Is(t, <-result, nil, "the running read")
	testenv.Is(t, testenv.Error(s.fact(t.Context(), "fact")), database.ErrNotFound, "the next read")
}
