package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/database"
	"sluice/ledger"
)

// gate blocks the writer in a transaction until it is opened, so that calls that arrive while it is
// closed become one batch.
type gate struct {
	entered, open chan struct{}
	result        chan error
}

func holdWriter(t *testing.T, s *Store) *gate {
	t.Helper()
	g := &gate{entered: make(chan struct{}), open: make(chan struct{}), result: make(chan error, 1)}
	var once sync.Once
	go func() {
		g.result <- s.db.eng.write(context.Background(), func(*tx) error {
			once.Do(func() { close(g.entered) })
			<-g.open
			return nil
		})
	}()
	<-g.entered
	return g
}

// queued waits until n calls wait for the writer.
func queued(w *writer, n int) {
	for {
		w.mu.Lock()
		have := len(w.mu.queue)
		w.mu.Unlock()
		if have >= n {
			return
		}
		runtime.Gosched()
	}
}

// waiting waits until n uses in the lane of a session wait for their transaction.
func waiting(s *Store, id string, n int) {
	for {
		s.uses.mu.Lock()
		have := len(s.uses.mu.waiting[s.uses.lane(id)])
		s.uses.mu.Unlock()
		if have == n {
			return
		}
		runtime.Gosched()
	}
}

// openWithWriter opens a store and returns it with its writer.
func openWithWriter(t *testing.T, path string, opt Options) (*Store, *writer) {
	t.Helper()
	e, err := openSQLite(path, opt.engine(newBlobCache(opt.BlobCache)))
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(NewDB(e, opt.Now), nil)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, e.writer
}

func setFact(name string) func(*tx) error {
	return func(t *tx) error {
		_, err := t.exec(`INSERT INTO facts (name, value) VALUES ($1, $2)`, []byte(name), []byte("v"))
		return err
	}
}

var errPoison = errors.New("poison")

// TestPoisonedBatch runs calls that fail in every way in one batch with calls that succeed.
func TestPoisonedBatch(t *testing.T) {
	s, w := openWithWriter(t, databasePath(t), Options{})
	g := holdWriter(t, s)
	type result struct {
		name string
		err  error
	}
	results := make(chan result, 100)
	calls := 0
	call := func(name string, fn func(*tx) error) {
		calls++
		go func() {
			defer func() {
				if p := recover(); p != nil {
					results <- result{name, fmt.Errorf("panic: %v", p)}
				}
			}()
			results <- result{name, s.db.write(context.Background(), fn)}
		}()
	}
	var runs atomic.Int64
	for i := range 10 {
		call(fmt.Sprint("good", i), func(t *tx) error {
			runs.Add(1)
			return setFact(fmt.Sprint("good", i))(t)
		})
	}
	call("before a change", func(*tx) error { return errPoison })
	call("after a change", func(t *tx) error {
		if err := setFact("after a change")(t); err != nil {
			return err
		}
		return errPoison
	})
	call("bad statement", func(t *tx) error {
		if err := setFact("bad statement")(t); err != nil {
			return err
		}
		_, err := t.exec(`INSERT INTO nowhere VALUES ($1)`, int64(1))
		return err
	})
	call("unique", func(t *tx) error {
		return errors.Join(setFact("unique")(t), setFact("unique")(t))
	})
	call("panic", func(t *tx) error {
		if err := setFact("panic")(t); err != nil {
			return err
		}
		panic("poison")
	})
	call("leaves the transaction", func(t *tx) error { // as SQLite does on some errors
		if err := errors.Join(setFact("leaves the transaction")(t), t.conn.(*sqliteConn).run("ROLLBACK")); err != nil {
			return err
		}
		_, err := t.exec(`INSERT INTO nowhere VALUES ($1)`, int64(1))
		return err
	})
	for i := 10; i < 20; i++ {
		call(fmt.Sprint("good", i), setFact(fmt.Sprint("good", i)))
	}
	queued(w, calls)
	close(g.open)
	if err := <-g.result; err != nil {
		t.Errorf("the call at the head of the batch: %v", err)
	}
	for range calls {
		r := <-results
		_, err := s.Property(t.Context(), r.name)
		good := strings.HasPrefix(r.name, "good")
		switch {
		case good && (r.err != nil || err != nil):
			t.Errorf("%s was affected: %v; its property: %v", r.name, r.err, err)
		case !good && (r.err == nil || !errors.Is(err, database.ErrNotFound)):
			t.Errorf("%q: %v; its property: %v", r.name, r.err, err)
		}
		switch r.name {
		case "before a change", "after a change":
			if r.err != errPoison { //nolint:errorlint // returned as it is
				t.Errorf("%s: %v", r.name, r.err)
			}
		case "unique":
			if !errors.Is(r.err, database.ErrExists) {
				t.Errorf("%s: %v", r.name, r.err)
			}
		}
	}
	if n := runs.Load(); n < 10 || n > 20 {
		t.Errorf("10 closures ran %d times", n)
	}
	if err := s.SetProperty(t.Context(), "later", "v"); err != nil {
		t.Errorf("after the batch: %v", err)
	}
}

// TestCallersCancel ends the contexts of waiting calls and of a running one.
func TestCallersCancel(t *testing.T) {
	s, w := openWithWriter(t, databasePath(t), Options{})
	if _, err := s.CreateSession(t.Context(), ledger.Session{ID: "session", Total: 9, Left: 9, Expires: time.Now().Add(time.Hour)}, nil); err != nil {
		t.Fatal(err)
	}
	g := holdWriter(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 2)
	go func() { left <- s.SetProperty(ctx, "left", "v") }()
	go func() { _, err := s.UseSession(ctx, "session", 1, nil); left <- err }()
	stays := make(chan error, 1)
	go func() { stays <- s.SetProperty(context.Background(), "stays", "v") }()
	queued(w, 3)
	cancel()
	for range 2 { // they return while the writer is held
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled caller: %v", err)
		}
	}
	close(g.open)
	if err := errors.Join(<-g.result, <-stays); err != nil {
		t.Error(err)
	}
	if _, err := s.Property(t.Context(), "left"); !errors.Is(err, database.ErrNotFound) {
		t.Errorf("the property of a cancelled caller: %v", err)
	}
	if got, err := s.Session(t.Context(), "session"); err != nil || got.Left != 9 {
		t.Errorf("the session of a cancelled caller: %+v, %v", got, err)
	}

	ctx, cancel = context.WithCancel(t.Context())
	err := s.db.write(ctx, func(t *tx) error {
		cancel()
		return setFact("begun")(t)
	})
	if err != nil {
		t.Errorf("a call whose context ended after it had begun: %v", err)
	}
	if _, err := s.Property(t.Context(), "begun"); err != nil {
		t.Error(err)
	}
}

// TestCoalescedUses holds the writer while many callers use one session: the uses become one
// transaction, which grants exactly the chunksets that are left.
func TestCoalescedUses(t *testing.T) {
	s, w := openWithWriter(t, databasePath(t), Options{})
	const left, callers = 30, 50
	if _, err := s.CreateSession(t.Context(), ledger.Session{ID: "session", Total: left, Left: left, Expires: time.Now().Add(time.Hour)}, nil); err != nil {
		t.Fatal(err)
	}
	g := holdWriter(t, s)
	var sum, won, lost atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			switch got, err := s.UseSession(t.Context(), "session", 1, nil); {
			case err == nil:
				won.Add(1)
				sum.Add(got.Left)
			case errors.Is(err, ledger.ErrExhausted):
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	waiting(s, "session", callers)
	queued(w, 1)
	w.mu.Lock()
	if n := len(w.mu.queue); n != 1 {
		t.Errorf("%d transactions for one session", n)
	}
	w.mu.Unlock()
	close(g.open)
	wg.Wait()
	if err := <-g.result; err != nil {
		t.Error(err)
	}
	if won.Load() != left || lost.Load() != callers-left || sum.Load() != left*(left-1)/2 {
		t.Errorf("%d succeeded, %d failed, the sum of the counts left is %d", won.Load(), lost.Load(), sum.Load())
	}
}

// TestCoalescedMany runs uses of many chunksets each in one transaction: in the order of
// arrival each is performed completely or not at all.
func TestCoalescedMany(t *testing.T) {
	s, w := openWithWriter(t, databasePath(t), Options{})
	if _, err := s.CreateSession(t.Context(), ledger.Session{ID: "session", Total: 20, Left: 20, Expires: time.Now().Add(time.Hour)}, nil); err != nil {
		t.Fatal(err)
	}
	wants := []struct {
		n, left int64
		ok      bool
	}{{9, 11, true}, {12, 11, false}, {10, 1, true}, {1<<63 - 1, 1, false}, {2, 1, false}, {1, 0, true}, {1, 0, false}}
	g := holdWriter(t, s)
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
		waiting(s, "session", i+1)
	}
	queued(w, 1)
	close(g.open)
	wg.Wait()
	if err := <-g.result; err != nil {
		t.Error(err)
	}
	if got, err := s.Session(t.Context(), "session"); err != nil || got.Left != 0 || got.Used != 20 {
		t.Errorf("session %+v, %v", got, err)
	}
}

// TestUsePanics makes the clock panic in the transaction of the uses of a session: each caller
// panics, and later uses succeed.
func TestUsePanics(t *testing.T) {
	var broken atomic.Bool
	s, w := openWithWriter(t, databasePath(t), Options{Now: func() time.Time {
		if broken.Load() {
			panic("no time")
		}
		return time.Now()
	}})
	if _, err := s.CreateSession(t.Context(), ledger.Session{ID: "session", Total: 9, Left: 9, Expires: time.Now().Add(time.Hour)}, nil); err != nil {
		t.Fatal(err)
	}
	g := holdWriter(t, s)
	const callers = 3
	panics := make(chan any, callers)
	for range callers {
		go func() {
			defer func() { panics <- recover() }()
			if _, err := s.UseSession(context.Background(), "session", 1, nil); err != nil {
				t.Error(err)
			}
		}()
	}
	waiting(s, "session", callers)
	queued(w, 1)
	broken.Store(true)
	close(g.open)
	for range callers {
		if p := <-panics; p != "no time" {
			t.Errorf("a caller recovered %v", p)
		}
	}
	if err := <-g.result; err != nil {
		t.Error(err)
	}
	broken.Store(false)
	if got, err := s.UseSession(t.Context(), "session", 1, nil); err != nil || got.Left != 8 {
		t.Errorf("a use after the panic: %+v, %v", got, err)
	}
}

// TestBusy holds the write lock on another connection for longer than SQLite waits.
func TestBusy(t *testing.T) {
	path := databasePath(t)
	s, w := openWithWriter(t, path, Options{})
	other, err := openSQLiteConn(path, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn(t, other)
	if err := other.run(sqliteBegin); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	leaver, stayer := make(chan error, 1), make(chan error, 1)
	go func() { leaver <- s.SetProperty(ctx, "leaver", "v") }()
	go func() { stayer <- s.SetProperty(context.Background(), "stayer", "v") }()
	queued(w, 2)
	cancel()
	if err := <-leaver; !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that was cancelled during a busy database: %v", err)
	}
	timer := time.NewTimer(busyTimeout + busyTimeout/4) // SQLite gives up at least once
	defer timer.Stop()
	select {
	case err := <-stayer:
		t.Fatalf("a write while the lock is held: %v", err)
	case <-timer.C:
	}
	if _, err := s.Property(t.Context(), "stayer"); !errors.Is(err, database.ErrNotFound) {
		t.Errorf("a read while the lock is held: %v", err)
	}
	if err := other.run("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-stayer; err != nil {
		t.Errorf("a write after the lock was released: %v", err)
	}
}

// TestReadCancelled ends the context of a read that waits for a connection.
func TestReadCancelled(t *testing.T) {
	s := openAt(t, databasePath(t), Options{Readers: 1})
	entered, open, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		result <- s.db.read(ctx, func(t *tx) error {
			close(entered)
			<-open
			var one integer
			_, err := t.row("SELECT 1", nil, &one)
			return err
		})
	}()
	<-entered
	cancel()
	if _, err := s.Property(ctx, "property"); !errors.Is(err, context.Canceled) {
		t.Errorf("a read that waits: %v", err)
	}
	close(open)
	if err := <-result; err != nil {
		t.Errorf("the running read: %v", err)
	}
	if _, err := s.Property(t.Context(), "property"); !errors.Is(err, database.ErrNotFound) {
		t.Errorf("the next read: %v", err)
	}
}
