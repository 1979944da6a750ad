package history_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/database"
	"sluice/history"
	"sluice/test/testenv"
)

// fenceLimit is how long deletions may be delayed by a restart.
const fenceLimit = 30 * time.Second

// guarded is a node that runs only a history.
type guarded struct {
	*history.History
	stop func()
}

var shared = history.Options{Shared: true}

// guard starts a node, which is stopped when the test ends.
func guard(t *testing.T, meta history.Database, bytes bytestore.Store) (guarded, error) {
	t.Helper()
	h, err := history.Open(t.Context(), meta, bytes, shared)
	if err != nil {
		return guarded{}, err
	}
	stop := watch(t.Context(), h)
	t.Cleanup(stop)
	return guarded{h, stop}, nil
}

// watch runs a history's Watch until stop is called.
func watch(ctx context.Context, h *history.History) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { h.Watch(ctx, func(error, error) {}) })
	return func() { cancel(); running.Wait() }
}

func mustGuard(t *testing.T, meta history.Database, bytes bytestore.Store) guarded {
	t.Helper()
	g := testenv.Must(guard(t, meta, bytes))(t)
	return g
}

// holds reports whether the node may delete.
func (g guarded) holds(t *testing.T) bool {
	t.Helper()
	err := g.MayDelete(t.Context())
	if err != nil && !isRefusal(err) {
		t.Fatal(err)
	}
	if err == nil && g.Err() != nil {
		t.Fatalf("a node may delete and is fenced: %v", g.Err())
	}
	return err == nil
}

// wantHolder ends the test unless the node may delete.
func (g guarded) wantHolder(t *testing.T, format string, a ...any) {
	t.Helper()
	if !g.holds(t) {
		t.Fatalf("%s: %v", fmt.Sprintf(format, a...), g.MayDelete(t.Context()))
	}
}

// isRefusal reports whether an error forbids changes.
func isRefusal(err error) bool {
	return errors.Is(err, history.ErrFenced) || errors.Is(err, history.ErrFenceWaits) || errors.Is(err, database.ErrSetBack)
}

// TestTakeOver makes a copy the holder while its original runs, which is then fenced for good.
// Invariant 100.
func TestTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, original := memory.New(), openMeta(t)
		holds := func(meta *metaFile, want bool) {
			t.Helper()
			_, how, holds, err := history.Compare(t.Context(), meta, bytes)
			testenv.OK(t, err)
			testenv.Equal(t, holds, want, "the database holds the bytes")
			testenv.Equal(t, how, "", "how it was set back")
		}
		holds(original, true)
		first := mustGuard(t, original, bytes)
		first.wantHolder(t, "the first start of an instance waits")
		older := copyOf(t, original)
		mustGuard(t, original, bytes)
		time.Sleep(5 * time.Second)
		holds(original, true)
		holds(older, false)
		testenv.Equal(t, testenv.Must(history.Recover(t.Context(), older, bytes, database.KeptObjects{}))(t), 2, "the generation")
		_, _, ours, err := history.Compare(t.Context(), original, bytes)
		testenv.OK(t, err)
		testenv.Equal(t, ours, true, "a database of an earlier generation is told as set back")
		holds(older, true)
		time.Sleep(5 * time.Second)
		testenv.Is(t, first.MayDelete(t.Context()), history.ErrFenced, "the original after another database has taken over")
		second := mustGuard(t, older, bytes)
		time.Sleep(30 * time.Second)
		second.wantHolder(t, "the database that has taken over waits")
	})
}

// TestCopyAndOriginalStartedTogether starts a stopped instance and copies of it one after the
// other. If the original has made commits since the copies, it must become the holder, whichever
// starts first; if all are equal, none may. Two must never be permitted to delete.
// Invariant 96.
func TestCopyAndOriginalStartedTogether(t *testing.T) {
	for _, apart := range []time.Duration{0, time.Second, 19 * time.Second} {
		for _, ahead := range []int{0, 1} {
			for _, first := range []bool{true, false} {
				if !first && apart == 19*time.Second {
					continue // the third starts when the first is already the holder
				}
				synctest.Test(t, func(t *testing.T) { startTogether(t, apart, ahead, first) })
			}
		}
	}
}

func startTogether(t *testing.T, apart time.Duration, ahead int, first bool) {
	bytes, original := memory.New(), openMeta(t)
	running := mustGuard(t, original, bytes)
	databases := []*metaFile{copyOf(t, original), copyOf(t, original)}
	for range ahead {
		testenv.OK(t, running.Commit())
	}
	running.stop()
	at := 2
	if first {
		at = 0
	}
	databases = slices.Insert(databases, at, original)
	nodes := make([]guarded, 3)
	var refused error
	for i, meta := range databases {
		g, err := guard(t, meta, bytes)
		if err == nil {
			nodes[i] = g
		} else if refused = err; !isRefusal(err) {
			t.Fatal(err)
		}
		time.Sleep(apart)
	}
	holders := 0
	for range fenceLimit / (50 * time.Millisecond) {
		holders = 0
		for i, n := range nodes {
			if n.History == nil || !n.holds(t) {
				continue
			}
			holders++
			if databases[i] != original {
				t.Fatal("a copy may delete")
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	fenced := 0
	for _, n := range nodes {
		if n.History == nil || n.Err() != nil {
			fenced++
		}
		if n.History != nil && n.Err() != nil {
			refused = n.Err()
		}
	}
	if holders != ahead || fenced != 3-holders {
		t.Errorf("started %s apart with %d more commits: %d hold the bytes, %d are fenced", apart, ahead, holders, fenced)
	}
	if text := refused.Error(); !strings.Contains(text, "both have 1 records") && !strings.Contains(text, "lacks record 2") {
		t.Errorf("the error does not say which records there are: %s", text)
	}
}

// TestOldCopyDoesNotStart checks that a database that is behind the bytes, by one epoch, by more
// epochs than are kept, or because it has none, is rejected when it starts, and that only the
// latest epochs are kept.
func TestOldCopyDoesNotStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bytes, original := memory.New(), openMeta(t)
		without := copyOf(t, original)
		mustGuard(t, original, bytes).stop()
		old := copyOf(t, original)
		for restart := range 40 {
			g := mustGuard(t, original, bytes)
			time.Sleep(fenceLimit)
			g.wantHolder(t, "restart %d", restart)
			g.stop()
			for name, meta := range map[string]*metaFile{"an old copy": old, "a copy without epochs": without} {
				_, err := guard(t, copyOf(t, meta), bytes)
				testenv.Is(t, err, history.ErrFenced, "restart %d: %s", restart, name)
			}
		}
		var epochs, claims int
		testenv.OK(t, bytes.List(t.Context(), "", func(o bytestore.Object) error {
			if !strings.Contains(string(o.Name), "-claim") {
				epochs++
			} else {
				claims++
			}
			return nil
		}))
		if epochs != 16 || claims > 17 {
			t.Errorf("%d epochs and %d claims after 40 restarts, want 16 and at most 17", epochs, claims)
		}
		// The old copy can be used again with the command in the error.
		testenv.Must(history.Recover(t.Context(), old, bytes, database.KeptObjects{}))(t)
		g := mustGuard(t, old, bytes)
		time.Sleep(fenceLimit)
		g.wantHolder(t, "the chosen database")
	})
}

// TestFenceWhoseEpochWasReplaced replaces an epoch's object by one from another database. That
// happens if an operator removes the fence's objects while this node runs, and a copy puts its own.
// The node that had put the epoch must be fenced.
func TestFenceWhoseEpochWasReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, meta := memory.New(), openMeta(t)
		holder := mustGuard(t, meta, bytes)
		holder.wantHolder(t, "the first start of an instance waits")
		name := recordName(1)
		testenv.OK(t, bytes.Delete(t.Context(), name))
		const other = "0000000000000001 0123456789abcdef 0123456789abcdef"
		testenv.OK(t, bytes.Put(t.Context(), name, strings.NewReader(other), int64(len(other))))
		time.Sleep(fenceLimit)
		testenv.Is(t, holder.MayDelete(t.Context()), history.ErrFenced, "a node with another database's epoch")
	})
}

// permitted returns how long after now a node may commit, in steps of 100 ms.
func permitted(t *testing.T, f *history.History, limit time.Duration) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		switch err := f.MayCommit(); {
		case err == nil:
			return time.Since(began)
		case !errors.Is(err, history.ErrFenceWaits):
			t.Fatal(err)
		case time.Since(began) > limit:
			t.Fatalf("after %s: %v", limit, err)
		}
	}
}

// TestCommitsOfAStart checks for how long a node's commits wait after its start: not at an
// instance's first start, a moment if another node of its database runs, and otherwise until a
// holder that hangs could not commit any more.
// Invariant 94.
func TestCommitsOfAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, meta := memory.New(), openMeta(t)
		first := mustGuard(t, meta, bytes)
		testenv.Is(t, first.MayCommit(), nil, "the first start of an instance")
		time.Sleep(time.Hour + time.Second) // between two checks, so that the claim is not answered at once
		second := mustGuard(t, meta, bytes)
		testenv.Is(t, second.MayCommit(), history.ErrFenceWaits, "a start beside a holder")
		if took := permitted(t, second.History, time.Minute); took > 4*time.Second {
			t.Errorf("a start beside a holder waits %s", took)
		}
		first.stop()
		second.stop()
		third := mustGuard(t, meta, bytes)
		if took := permitted(t, third.History, time.Minute); took < 19*time.Second || took > 21*time.Second {
			t.Errorf("a start alone waits %s, want 20 seconds", took)
		}
		duplicate := mustGuard(t, copyOf(t, meta), bytes)
		for began := time.Now(); !errors.Is(duplicate.MayCommit(), history.ErrFenced); time.Sleep(100 * time.Millisecond) {
			if err := duplicate.MayCommit(); err == nil || time.Since(began) > 4*time.Second {
				t.Fatalf("after %s the copy of a database that runs: %v", time.Since(began), err)
			}
		}
		testenv.Is(t, third.MayCommit(), nil, "the original")
	})
}

// TestCommitsAfterAPause suspends a holder. It must make a check before it commits again, if
// another database could be the holder, and must not commit if one is.
// Invariant 94.
func TestCommitsAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, original := &unreadable{Store: memory.New()}, openMeta(t)
		f := testenv.Must(history.Open(t.Context(), original, store, shared))(t)
		time.Sleep(14 * time.Second)
		testenv.Is(t, f.MayCommit(), nil, "after a short pause")
		await := func(limit time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			return f.Await(ctx)
		}
		time.Sleep(2 * time.Second)
		testenv.Is(t, f.MayCommit(), history.ErrFenceWaits, "after a long pause")
		store.on.Store(true) // and the bytes cannot be reached
		stop := watch(t.Context(), f)
		testenv.Is(t, await(time.Minute), history.ErrFenceWaits, "after a long pause without the bytes")
		store.on.Store(false)
		testenv.Is(t, await(3*time.Second), nil, "after a check")
		store.on.Store(true)
		for range 10 { // without a pause this is no fence
			time.Sleep(time.Minute)
			if err := f.MayCommit(); err != nil {
				t.Fatalf("while the bytes cannot be reached: %v", err)
			}
		}
		store.on.Store(false)
		stop()
		began := time.Now()
		duplicate := mustGuard(t, copyOf(t, original), store.Store)
		for duplicate.MayCommit() != nil {
			time.Sleep(100 * time.Millisecond)
		}
		if err := f.MayCommit(); err == nil {
			t.Errorf("%s after the pause began the copy and the original may commit", time.Since(began))
		}
		defer watch(t.Context(), f)()
		testenv.Is(t, await(time.Second), history.ErrFenced, "after a copy has become the holder")
	})
}

// TestWorkEndsWithTheFence checks that While runs work while the database is the holder, and ends
// it when the database is fenced.
// Invariant 94.
func TestWorkEndsWithTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, original := memory.New(), openMeta(t)
		mustGuard(t, original, bytes).stop()
		g := mustGuard(t, original, bytes)
		var running atomic.Int64
		go g.While(t.Context(), func(ctx context.Context) {
			running.Add(1)
			<-ctx.Done()
			running.Add(-1)
		})
		time.Sleep(15 * time.Second)
		if n := running.Load(); n != 0 {
			t.Error("work runs while the fence waits")
		}
		time.Sleep(fenceLimit)
		if n := running.Load(); n != 1 {
			t.Errorf("work of the holder runs %d times", n)
		}
		name := recordName(2)
		testenv.OK(t, bytes.Delete(t.Context(), name))
		time.Sleep(5 * time.Second)
		if n := running.Load(); n != 0 || g.Err() == nil {
			t.Errorf("work of a fenced database runs %d times; its error is %v", n, g.Err())
		}
	})
}

// unreadable is a byte store that cannot open objects that it has, while the switch is on.
type unreadable struct {
	*memory.Store
	on atomic.Bool
}

func (s *unreadable) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	r, err := s.Store.Open(ctx, name, off, n)
	if err == nil && s.on.Load() {
		return nil, errors.Join(errResponse, r.Close())
	}
	return r, err
}

// TestUnreadableEpochIsNotAFence checks that a node that cannot read its epoch reports that, and
// not that another database holds the bytes.
func TestUnreadableEpochIsNotAFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meta, store := openMeta(t), &unreadable{Store: memory.New()}
		first := mustGuard(t, meta, store)
		time.Sleep(fenceLimit)
		first.wantHolder(t, "the first node does not hold the bytes")
		store.on.Store(true)
		if _, err := history.Open(t.Context(), meta, store, shared); !errors.Is(err, errResponse) || errors.Is(err, history.ErrFenced) {
			t.Errorf("error %v, want %v", err, errResponse)
		}
		store.on.Store(false)
		second := mustGuard(t, meta, store)
		time.Sleep(fenceLimit)
		testenv.Is(t, second.MayDelete(t.Context()), nil, "with the epoch readable again")
	})
}

// unreadableMeta is a database that cannot be read while the switch is on.
type unreadableMeta struct {
	*metaFile
	on atomic.Bool
}

func (m *unreadableMeta) History(ctx context.Context) (database.HistoryState, error) {
	if m.on.Load() {
		return database.HistoryState{}, errResponse
	}
	return m.metaFile.History(ctx)
}

// listHook is a byte store that calls a function once before it lists its objects.
type listHook struct {
	bytestore.Store
	before func()
}

func (s *listHook) List(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
	if s.before != nil {
		before := s.before
		s.before = nil
		before()
	}
	return s.Store.List(ctx, after, fn)
}

// TestEpochMadeDuringAStart checks that a node is not fenced by an epoch that another node makes
// for the same database after this one has read the database and before it reads the bytes, and
// that it reports that it cannot read the database again, not that another database holds the
// bytes.
func TestEpochMadeDuringAStart(t *testing.T) {
	for _, want := range []error{nil, errResponse} {
		synctest.Test(t, func(t *testing.T) {
			bytes, meta := memory.New(), openMeta(t)
			mustGuard(t, meta, bytes).stop()
			props := &unreadableMeta{metaFile: meta}
			store := &listHook{Store: bytes, before: func() {
				other := mustGuard(t, meta, bytes)
				time.Sleep(fenceLimit)
				if !other.holds(t) {
					t.Error("the other node made no epoch")
				}
				other.stop()
				props.on.Store(want != nil)
			}}
			_, err := history.Open(t.Context(), props, store, shared)
			if !errors.Is(err, want) || errors.Is(err, history.ErrFenced) {
				t.Errorf("error %v, want %v", err, want)
			}
		})
	}
}

// TestFenceBesideOtherObjects checks that a fence reads only its own objects, and that it reports a
// listing that fails.
func TestFenceBesideOtherObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, meta := memory.New(), openMeta(t)
		for _, name := range []bytestore.Name{"00-first", history.InstanceObject, "zz-last"} {
			testenv.OK(t, bytes.Put(t.Context(), name, strings.NewReader("x"), 1))
		}
		node := mustGuard(t, meta, bytes)
		time.Sleep(fenceLimit)
		testenv.Is(t, node.MayDelete(t.Context()), nil, "a node that starts with other objects in the store")
		_, err := history.Open(t.Context(), meta, brokenList{memory.New()}, shared)
		testenv.Is(t, err, errResponse, "a listing that fails")
	})
}
