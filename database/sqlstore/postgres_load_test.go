package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/sqlstore/internal/pgproxy"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/test/fault"
	"sluice/test/testenv"
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
	testenv.Must(s.CreateSession(t.Context(), ledger.Session{ID: faultSession, Total: 1 << 40, Left: 1 << 40, Expires: time.Now().Add(time.Hour)}, nil))(t)
	return &faultLoad{T: t, store: s}
}

// TestPostgresStoppedUnderLoad crashes the server under load. The calls succeed when it is
// back, and each takes effect once.
// Invariant 80.
func TestPostgresStoppedUnderLoad(t *testing.T) {
	server := testenv.StartPostgres(t)
	s := openNode(t, server.DSN())
	load, enough := newFaultLoad(t, s), make(chan struct{})
	load.run(enough)
	for range 5 {
		load.reach(300)
		testenv.OK(t, errors.Join(server.Stop(), server.Start()))
	}
	load.reach(300)
	close(enough)
	load.check()
}

// TestPostgresCutAtCommit cuts connections during COMMITs, in each way of cut.
// Invariants 5, 80.
func TestPostgresCutAtCommit(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	kinds := []fault.Kind{fault.None, fault.Fail, fault.Lose, fault.Delay}
	cuts := map[fault.Kind]int{}
	commit := func() fault.Kind {
		mu.Lock()
		defer mu.Unlock()
		kind := fault.None
		if rnd.IntN(4) == 0 {
			kind = kinds[rnd.IntN(len(kinds))]
		}
		cuts[kind]++
		return kind
	}
	s := openNode(t, pgproxy.New(t, testenv.Postgres(t), commit).DSN)
	load, enough := newFaultLoad(t, s), make(chan struct{})
	load.run(enough)
	load.reach(600)
	close(enough)
	load.check()
	for _, kind := range kinds {
		if cuts[kind] == 0 {
			t.Errorf("there was no COMMIT that %s", kind)
		}
	}
	t.Logf("COMMITs: %v", cuts)
	lost := int64(load.calls.Load())
	if stats := s.Stats(); stats.InDoubt == 0 || stats.InDoubt > lost || stats.Postgres.LostRetries < stats.InDoubt {
		t.Errorf("%d COMMITs in doubt and %d retries in %d calls", stats.InDoubt, stats.Postgres.LostRetries, lost)
	}
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
		idem := &database.Idempotency{Scope: "use", Key: name}
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
	_, err := l.store.CommitBlob(ctx, b, []metastore.Extent{{Size: 3, Object: name, Created: time.Now()}}, func(current *metastore.Blob) error {
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
	if err := errors.Join(l.copyAndMove(ctx, name), l.completeUneven(ctx, name)); err != nil {
		return err
	}
	content, had, err := dbtest.Remove(ctx, l.store, "a", name, nil)
	if err == nil && (!had || content != b.Content) {
		err = fmt.Errorf("deleted %v, %v", content, had)
	}
	return err
}

// copyAndMove fails if a committed transaction is run again: the copy would find itself, and the
// move no source.
func (l *faultLoad) copyAndMove(ctx context.Context, name string) error {
	missing := func(current *metastore.Blob) error {
		if current != nil {
			return errors.New("the destination exists before it was written")
		}
		return nil
	}
	from, moved := metastore.BlobName{Account: "a", Name: name}, metastore.BlobName{Account: "a", Name: name + " moved"}
	to := metastore.Blob{Account: "b", Name: name}
	if _, err := l.store.CopyBlob(ctx, metastore.Copy{From: from, To: to, Precondition: missing}); err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	if _, err := l.store.MoveBlob(ctx, metastore.Move{From: metastore.BlobName{Account: to.Account, Name: to.Name}, To: moved, Precondition: missing}); err != nil {
		return fmt.Errorf("move: %w", err)
	}
	content, had, err := dbtest.Remove(ctx, l.store, moved.Account, moved.Name, nil)
	if err == nil && (!had || content != (metastore.ContentID{})) {
		err = fmt.Errorf("deleted the copy: %v, %v", content, had)
	}
	return err
}

// completeUneven fails if the parts that it did not choose are not garbage, or if the chosen ones
// are.
func (l *faultLoad) completeUneven(ctx context.Context, name string) error {
	id := name + " uneven"
	u, err := l.store.BeginUpload(ctx, metastore.Upload{ID: id, Account: "b", Name: id, Content: metastore.NewContentID(time.Now())})
	if err != nil {
		return err
	}
	var parts []metastore.Part
	for i := range 3 {
		p := metastore.Part{Index: i, Size: int64(3 + i)}
		e := metastore.Extent{Part: i, Size: p.Size, Object: fmt.Sprint(id, i), Created: time.Now()}
		if err := l.store.PutPart(ctx, id, p, []metastore.Extent{e}); err != nil {
			return fmt.Errorf("part: %w", err)
		}
		parts = append(parts, p)
	}
	if u, err = l.store.Upload(ctx, id); err != nil {
		return err
	}
	done, err := l.store.CompleteUneven(ctx, id, u.Revision, []metastore.Part{parts[0], parts[2]}, 1, "", nil)
	if err != nil || done.Size != 8 {
		return fmt.Errorf("completed %+v: %w", done, err)
	}
	extents, err := l.store.ExtentsAt(ctx, u.Content, 3, 10)
	if err != nil || len(extents) != 1 || extents[0].Part != 2 {
		return fmt.Errorf("extents %+v: %w", extents, err)
	}
	content, had, err := dbtest.Remove(ctx, l.store, "b", id, nil)
	if err == nil && (!had || content != u.Content) {
		err = fmt.Errorf("deleted %v, %v", content, had)
	}
	return err
}

// reach waits until more calls are acknowledged.
func (l *faultLoad) reach(more int64) {
	for want := l.calls.Load() + more; l.calls.Load() < want && !l.Failed(); {
		// The session's uses block, so the other calls continue.
		testenv.Check(l, testenv.Error(l.store.UseSession(l.Context(), faultSession, 1, nil)))
		l.used.Add(1)
	}
}

// check ends the load and checks that every call took effect once.
func (l *faultLoad) check() {
	l.Helper()
	l.wg.Wait()
	s := testenv.Must(l.store.Session(l.Context(), faultSession))(l)
	if s.Used != l.used.Load() || s.Used+s.Left != s.Total {
		l.Errorf("the session was used for %d and has %d left, %d were acknowledged", s.Used, s.Left, l.used.Load())
	}
	audited(l, l.store)
	if n := value(l, l.store, `SELECT COUNT(*) FROM blobs`); n != 0 && !l.Failed() {
		l.Errorf("%d blobs are left", n)
	}
	garbage := value(l, l.store, `SELECT COUNT(*) FROM garbage g, extents e WHERE g.content = e.content`)
	testenv.Equal(l, value(l, l.store, `SELECT COUNT(*) FROM extents`), garbage, "extents, of which all are garbage")
	l.Logf("%d calls", l.calls.Load())
}
