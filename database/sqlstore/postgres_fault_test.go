package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/database"
	"sluice/internal/testenv"
	"sluice/ledger"
	"sluice/metastore"
)

// faultLoad makes calls that must each take effect exactly once, regardless of failed
// connections.
type faultLoad struct {
	*testing.T
	store *Store
	calls atomic.Int64 // acknowledged
	used  atomic.Int64 // acknowledged chunksets
	wg    sync.WaitGroup
}

const faultSession = "session"

func newFaultLoad(t *testing.T, s *Store) *faultLoad {
	t.Helper()
	_, err := s.CreateSession(t.Context(), ledger.Session{ID: faultSession, Total: 1 << 40, Left: 1 << 40, Expires: time.Now().Add(time.Hour)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &faultLoad{T: t, store: s}
}

// run makes calls from several goroutines until enough is closed.
func (l *faultLoad) run(enough <-chan struct{}) {
	for g := range 12 {
		l.wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-enough:
					return
				default:
				}
				if err := l.call(g, fmt.Sprintf("%d-%d", g, i)); err != nil {
					l.Errorf("call %d of goroutine %d: %v", i, g, err)
					return
				}
				l.calls.Add(1)
			}
		})
	}
}

func (l *faultLoad) call(g int, name string) error {
	ctx := context.Background()
	switch g % 4 {
	case 0, 1:
		if _, err := l.store.UseSession(ctx, faultSession, 1, nil); err != nil {
			return err
		}
	case 2:
		idem := &ledger.Idempotency{Scope: "use", Key: name}
		if _, err := l.store.UseSession(ctx, faultSession, 1, idem); err != nil {
			return err
		}
	default:
		return l.createAndDelete(ctx, name)
	}
	l.used.Add(1)
	return nil
}

// createAndDelete fails if a committed transaction is run again: it would find the blob, or
// not find it.
func (l *faultLoad) createAndDelete(ctx context.Context, name string) error {
	b := metastore.Blob{Account: "a", Name: name, Content: metastore.NewContentID(time.Now()), Size: 3}
	_, err := l.store.CommitBlob(ctx, b, []metastore.Extent{{Size: 3, Key: name, Created: time.Now()}}, func(current *metastore.Blob) error {
		if current != nil {
			return errors.New("the blob exists before it was created")
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := l.store.Blob(ctx, "a", name); err != nil {
		return fmt.Errorf("acknowledged blob: %w", err)
	}
	content, had, err := l.store.DeleteBlob(ctx, "a", name, nil)
	if err == nil && (!had || content != b.Content) {
		err = fmt.Errorf("deleted %v, %v", content, had)
	}
	return err
}

// reach waits until more calls are acknowledged.
func (l *faultLoad) reach(more int64) {
	for want := l.calls.Load() + more; l.calls.Load() < want && !l.Failed(); {
		// Each use of the session blocks, so the others continue.
		if _, err := l.store.UseSession(l.Context(), faultSession, 1, nil); err != nil {
			l.Error(err)
		}
		l.used.Add(1)
	}
}

// check ends the load and checks that every call took effect once.
func (l *faultLoad) check() {
	l.Helper()
	l.wg.Wait()
	s, err := l.store.Session(l.Context(), faultSession)
	if err != nil {
		l.Fatal(err)
	}
	if s.Used != l.used.Load() || s.Used+s.Left != s.Total {
		l.Errorf("the session was used for %d and has %d left, %d were acknowledged", s.Used, s.Left, l.used.Load())
	}
	if found, err := l.store.Audit(l.Context()); err != nil || len(found) > 0 {
		l.Errorf("audit: %q, %v", found, err)
	}
	if n := value(l, l.store, `SELECT COUNT(*) FROM blobs`); n != 0 && !l.Failed() {
		l.Errorf("%d blobs are left", n)
	}
	garbage := value(l, l.store, `SELECT COUNT(*) FROM garbage g, extents e WHERE g.content = e.content`)
	if n := value(l, l.store, `SELECT COUNT(*) FROM extents`); n != garbage {
		l.Errorf("%d extents, %d of them garbage", n, garbage)
	}
	l.Logf("%d calls", l.calls.Load())
}

// TestPostgresStoppedUnderLoad crashes the server under load. The calls succeed when it is
// back, and each takes effect once.
func TestPostgresStoppedUnderLoad(t *testing.T) {
	server := testenv.StartPostgres(t)
	s, _ := openNode(t, server.DSN())
	load, enough := newFaultLoad(t, s), make(chan struct{})
	load.run(enough)
	for range 5 {
		load.reach(300)
		if err := errors.Join(server.Stop(), server.Start()); err != nil {
			t.Fatal(err)
		}
	}
	load.reach(300)
	close(enough)
	load.check()
}

// TestPostgresCutAtCommit cuts connections during COMMITs, in each way of cut.
func TestPostgresCutAtCommit(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	var cuts [cutKinds]int
	commit := func() cut {
		mu.Lock()
		defer mu.Unlock()
		kind := cutNot
		if rnd.IntN(4) == 0 {
			kind = cut(rnd.IntN(int(cutKinds)))
		}
		cuts[kind]++
		return kind
	}
	s, _ := openNode(t, newProxy(t, testenv.Postgres(t), commit).dsn)
	load, enough := newFaultLoad(t, s), make(chan struct{})
	load.run(enough)
	load.reach(1500)
	close(enough)
	load.check()
	for kind, n := range cuts {
		if n == 0 {
			t.Errorf("no COMMIT was cut in way %d", kind)
		}
	}
	t.Logf("COMMITs let through, cut before, after and around: %v", cuts)
	lost := int64(load.calls.Load())
	if stats := s.Stats(); stats.InDoubt == 0 || stats.InDoubt > lost || stats.Postgres.LostRetries < stats.InDoubt {
		t.Errorf("%d COMMITs in doubt and %d retries in %d calls", stats.InDoubt, stats.Postgres.LostRetries, lost)
	}
}

// TestPostgresUnknownOutcome: the outcome of a COMMIT is unknown only while the server cannot
// be reached.
func TestPostgresUnknownOutcome(t *testing.T) {
	var p *proxy
	p = newProxy(t, testenv.Postgres(t), func() cut {
		p.refuse.Store(true)
		return cutAfter
	})
	s, _ := openNode(t, p.dsn)
	short := func() context.Context { return database.WithPatience(t.Context(), 300*time.Millisecond) }
	// It wraps the error of pgx for a connection that was closed properly, which callers must
	// not mistake for the end of the body of a request. The patience of some calls ends during
	// an attempt: their error is a deadline.
	for closed := false; !closed; {
		p.refuse.Store(false)
		err := s.SetProperty(short(), "name", "value")
		if !p.refuse.Load() {
			continue // the patience ended before the COMMIT
		}
		if !errors.Is(err, database.ErrUnknownOutcome) {
			t.Fatalf("a COMMIT without a response, while the server cannot be reached: %v", err)
		}
		closed = errors.Is(err, io.ErrUnexpectedEOF)
	}
	if err := s.SetProperty(short(), "other", "value"); !errors.Is(err, database.ErrUnavailable) {
		t.Errorf("a write without a server: %v", err)
	}
	if _, err := s.Property(short(), "name"); !errors.Is(err, database.ErrUnavailable) {
		t.Errorf("a read without a server: %v", err)
	}
	if err := s.Err(); !errors.Is(err, database.ErrUnavailable) {
		t.Errorf("Err is %v without a server", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.SetProperty(ctx, "other", "value"); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled write without a server: %v", err)
	}
	p.refuse.Store(false)
	if got, err := s.Property(t.Context(), "name"); err != nil || got != "value" {
		t.Errorf("the property is %q, %v", got, err)
	}
	if err := s.Err(); err != nil {
		t.Errorf("Err is %v while the server is reachable", err)
	}
}

// TestPostgresDetectsItsServer: a store without calls detects that its server is back.
func TestPostgresDetectsItsServer(t *testing.T) {
	p := newProxy(t, testenv.Postgres(t), func() cut { return cutNot })
	s, node := openNode(t, p.dsn)
	p.refuse.Store(true)
	p.cutAll()
	for s.Err() == nil {
		if _, err := s.Property(database.WithPatience(t.Context(), 10*time.Millisecond), "name"); err == nil {
			t.Fatal("a read without a server succeeded")
		}
	}
	p.refuse.Store(false)
	node.probe(t.Context())
	if err := s.Err(); err != nil {
		t.Errorf("Err is %v while the server is reachable", err)
	}
}

// TestPostgresTooManyConnections: a store whose server refuses further connections keeps those that
// it has, and its calls wait for them.
func TestPostgresTooManyConnections(t *testing.T) {
	server := testenv.StartPostgres(t)
	if err := errors.Join(server.StopFast(), server.Start("max_connections=10")); err != nil {
		t.Fatal(err)
	}
	s, node := openNode(t, server.DSN())
	held, err := node.acquire(t.Context(), time.Now().Add(database.Patience))
	if err != nil {
		t.Fatal(err)
	}
	for { // until the server has no connection left
		other, err := pgx.Connect(t.Context(), server.DSN())
		if err != nil {
			if f := classifyPostgres(err); f != classLost {
				t.Errorf("the refusal of a connection has the class %d: %v", f, err)
			}
			break
		}
		t.Cleanup(func() {
			if err := other.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	read := make(chan error, 1)
	go func() {
		_, err := s.Property(t.Context(), "name")
		read <- err
	}()
	for node.conflictRetries.Load()+node.lostRetries.Load() == 0 { // until a connection was refused
		runtime.Gosched()
	}
	if err := s.Err(); err != nil {
		t.Errorf("Err is %v while the server serves a connection of the store", err)
	}
	kept := held.conn.PgConn().PID()
	held.release()
	if err := <-read; !errors.Is(err, database.ErrNotFound) {
		t.Errorf("a read that waited for the only connection: %v", err)
	}
	var pid integer
	err = node.read(t.Context(), func(t *tx) error {
		_, err := t.row(`SELECT pg_backend_pid()`, nil, &pid)
		return err
	})
	if err != nil || uint32(pid) != kept {
		t.Errorf("the connection %d became %d: %v", kept, pid, err)
	}
}
