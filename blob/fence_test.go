package blob_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/metastore"
	"sluice/metastore/sqlstore"
)

// fenceLimit is how long deletions may be delayed by a restart.
const fenceLimit = 30 * time.Second

// guarded is a node that runs only a fence.
type guarded struct {
	*blob.Fence
	stop func()
}

// guard starts a node, which is stopped at the end of the test.
func guard(t *testing.T, meta metastore.Properties, bytes bytestore.Store) (guarded, error) {
	t.Helper()
	f, err := blob.OpenFence(t.Context(), meta, bytes)
	if err != nil {
		return guarded{}, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Watch(ctx, func(error) {}) })
	stop := func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return guarded{f, stop}, nil
}

func mustGuard(t *testing.T, meta metastore.Properties, bytes bytestore.Store) guarded {
	t.Helper()
	g, err := guard(t, meta, bytes)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// owns reports whether the node may delete.
func (g guarded) owns(t *testing.T) bool {
	t.Helper()
	err := g.MayDelete(t.Context())
	if err != nil && !errors.Is(err, blob.ErrFenceWaits) && !errors.Is(err, blob.ErrFenced) {
		t.Fatal(err)
	}
	if err == nil && g.Err() != nil {
		t.Fatalf("a node may delete and is fenced: %v", g.Err())
	}
	return err == nil
}

// database opens an empty database in a synctest bubble.
func database(t *testing.T) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.OpenSQLite(t.TempDir()+"/meta.db", sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// copyOf copies the properties of a database that a fence uses.
func copyOf(t *testing.T, meta *sqlstore.Store) *sqlstore.Store {
	t.Helper()
	c := database(t)
	facts, err := meta.Properties(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range facts {
		if err := c.SetProperty(t.Context(), name, value); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestCopyWhileTheOriginalRuns starts a copy while its original runs. The copy must be
// fenced before it may delete anything, and the original must continue.
func TestCopyWhileTheOriginalRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, original := memory.New(), database(t)
		first := mustGuard(t, original, bytes)
		if !first.owns(t) {
			t.Fatal("the first start of an instance waits")
		}
		for round := range 3 {
			duplicate := mustGuard(t, copyOf(t, original), bytes)
			for began := time.Now(); duplicate.Err() == nil; time.Sleep(100 * time.Millisecond) {
				if duplicate.owns(t) || !first.owns(t) {
					t.Fatalf("round %d, after %s: the copy may delete: %t, the original %t", round, time.Since(began), duplicate.owns(t), first.owns(t))
				}
				if time.Since(began) > 18*time.Second { // the original responds at its next check, and the copy notices at its own
					t.Fatal("the copy is not fenced")
				}
			}
			if err := duplicate.Err(); !errors.Is(err, blob.ErrFenced) || !strings.Contains(err.Error(), "delete the objects sluice-epoch-*") {
				t.Errorf("the fence of the copy is %v", err)
			}
			time.Sleep(time.Hour)
			if duplicate.owns(t) || !first.owns(t) {
				t.Errorf("an hour later the copy may delete: %t, the original: %t", duplicate.owns(t), first.owns(t))
			}
		}
	})
}

// TestCopyAndOriginalStartedTogether starts a stopped instance and copies of it one after
// the other. Exactly one must become the owner, and two must never be permitted to delete.
func TestCopyAndOriginalStartedTogether(t *testing.T) {
	for _, apart := range []time.Duration{0, time.Second, 19 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			bytes, original := memory.New(), database(t)
			mustGuard(t, original, bytes).stop()
			var nodes []guarded
			fenced, owners := 0, 0
			for _, meta := range []*sqlstore.Store{original, copyOf(t, original), copyOf(t, original)} {
				switch g, err := guard(t, meta, bytes); {
				case err == nil:
					nodes = append(nodes, g)
				case errors.Is(err, blob.ErrFenced):
					fenced++ // the first was an owner for a while
				default:
					t.Fatal(err)
				}
				time.Sleep(apart)
			}
			for range fenceLimit / (50 * time.Millisecond) {
				owners = 0
				for _, n := range nodes {
					if n.owns(t) {
						owners++
					}
				}
				if owners > 1 {
					t.Fatalf("%d databases may delete", owners)
				}
				time.Sleep(50 * time.Millisecond)
			}
			for _, n := range nodes {
				if n.Err() != nil {
					fenced++
				}
			}
			if owners != 1 || fenced != 2 {
				t.Errorf("started %s apart: %d own the bytes, %d are fenced", apart, owners, fenced)
			}
		})
	}
}

// TestOldCopyDoesNotStart checks that a database that is behind the bytes, by one epoch,
// by more epochs than are kept, or because it has none, is rejected when it starts, and
// that only the latest epochs are kept.
func TestOldCopyDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, original := memory.New(), database(t)
		without := copyOf(t, original)
		mustGuard(t, original, bytes).stop()
		old := copyOf(t, original)
		for restart := range 40 {
			g := mustGuard(t, original, bytes)
			time.Sleep(fenceLimit)
			if !g.owns(t) {
				t.Fatalf("restart %d: %v", restart, g.MayDelete(t.Context()))
			}
			g.stop()
			for name, meta := range map[string]*sqlstore.Store{"an old copy": old, "a copy without epochs": without} {
				if _, err := guard(t, copyOf(t, meta), bytes); !errors.Is(err, blob.ErrFenced) {
					t.Fatalf("restart %d: %s: %v, want %v", restart, name, err, blob.ErrFenced)
				}
			}
		}
		var epochs, claims int
		if err := bytes.List(t.Context(), "", func(o bytestore.Object) error {
			if strings.HasSuffix(string(o.Key), "-owner") {
				epochs++
			} else {
				claims++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if epochs != 16 || claims > 17 {
			t.Errorf("%d epochs and %d claims after 40 restarts, want 16 and at most 17", epochs, claims)
		}
		// The old copy can be used again as the error message says.
		if err := bytes.List(t.Context(), "", func(o bytestore.Object) error { return bytes.Delete(t.Context(), o.Key) }); err != nil {
			t.Fatal(err)
		}
		g := mustGuard(t, old, bytes)
		time.Sleep(fenceLimit)
		if !g.owns(t) {
			t.Errorf("the chosen database: %v", g.MayDelete(t.Context()))
		}
	})
}

// TestNodesOfOneDatabase checks that nodes of one database never fence each other, whether
// they start concurrently, one after the other, or again after all were killed, and that a
// node that joins a running one is soon permitted to delete.
func TestNodesOfOneDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = 3
		bytes, meta := memory.New(), database(t)
		var running [nodes]guarded
		start := func(i int) {
			g, err := guard(t, meta, bytes)
			if err != nil {
				t.Errorf("node %d: %v", i, err)
				return
			}
			running[i] = g
		}
		check := func(what string, within time.Duration) {
			t.Helper()
			for range within / time.Second {
				for i, g := range running {
					if g.Err() != nil {
						t.Fatalf("%s: node %d: %v", what, i, g.Err())
					}
				}
				time.Sleep(time.Second)
			}
			for i, g := range running {
				if !g.owns(t) {
					t.Fatalf("%s: node %d: %v", what, i, g.MayDelete(t.Context()))
				}
			}
		}
		atOnce := func() {
			var starts sync.WaitGroup
			for i := range nodes {
				starts.Go(func() { start(i) })
			}
			starts.Wait()
		}
		atOnce()
		check("first starts", 17*time.Second)
		for range 3 {
			for i := range running {
				running[i].stop()
				time.Sleep(time.Duration(i) * time.Second)
				start(i)
				check(fmt.Sprint("restart of node ", i), 17*time.Second)
			}
		}
		for _, g := range running {
			g.stop()
		}
		atOnce()
		check("restart of all", fenceLimit)
	})
}

// TestFenceOfAnOwnerThatHangs suspends an owner. Before it deletes again it must notice
// that a copy has become the owner.
func TestFenceOfAnOwnerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, original := memory.New(), database(t)
		owner, err := blob.OpenFence(t.Context(), original, bytes) // its Watch does not run
		if err != nil {
			t.Fatal(err)
		}
		hangs := guarded{Fence: owner}
		copied := copyOf(t, original)
		duplicate := mustGuard(t, copied, bytes)
		time.Sleep(fenceLimit)
		if !duplicate.owns(t) {
			t.Fatalf("the copy of a hanging owner: %v", duplicate.MayDelete(t.Context()))
		}
		duplicate.stop()
		hangs.hangsOn(t, "a copy has taken the bytes")
		// Old epochs are removed, among them that of the database.
		hung, err := blob.OpenFence(t.Context(), copied, bytes)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(fenceLimit)
		if err := hung.MayDelete(t.Context()); err != nil {
			t.Fatal(err)
		}
		other := copyOf(t, copied)
		for range 20 {
			g := mustGuard(t, other, bytes)
			time.Sleep(fenceLimit)
			g.stop()
		}
		guarded{Fence: hung}.hangsOn(t, "a copy has removed its epoch")
	})
}

// TestFenceWhoseEpochWasReplaced replaces the object of an epoch by that of another
// database, as if an operator had removed the objects of the fence while this node ran and
// a copy had put its own. The node that had put the epoch must be fenced.
func TestFenceWhoseEpochWasReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, meta := memory.New(), database(t)
		owner := mustGuard(t, meta, bytes)
		if !owner.owns(t) {
			t.Fatal("the first start of an instance waits")
		}
		key := bytestore.Key(fmt.Sprintf("sluice-epoch-%016x-owner", 1))
		if err := bytes.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		const other = "0123456789abcdef0123456789abcdef"
		if err := bytes.Put(t.Context(), key, strings.NewReader(other), int64(len(other))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(fenceLimit)
		if err := owner.MayDelete(t.Context()); !errors.Is(err, blob.ErrFenced) {
			t.Errorf("a node whose epoch belongs to another database: %v", err)
		}
	})
}

// hangsOn ends the test unless the node, when it continues, finds itself fenced.
func (g guarded) hangsOn(t *testing.T, what string) {
	t.Helper()
	if err := g.MayDelete(t.Context()); !errors.Is(err, blob.ErrFenced) {
		t.Errorf("a node that hung while %s: %v", what, err)
	}
}

// TestFenceCutAtEachStep kills a node at each step. The next start of its database must
// soon be an owner, and exactly one of that database and of a copy made at the kill.
func TestFenceCutAtEachStep(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		for _, after := range []bool{false, true} {
			for step, cut := 1, true; cut; step++ {
				synctest.Test(t, func(t *testing.T) {
					bytes, meta := memory.New(), database(t)
					if !fresh {
						mustGuard(t, meta, bytes).stop()
					}
					k := &killer{step: step, after: after}
					ctx, cancel := context.WithCancel(t.Context())
					if f, err := blob.OpenFence(ctx, cutFacts{meta, k}, cutBytes{bytes, k}); err == nil {
						go f.Watch(ctx, func(error) {})
						time.Sleep(fenceLimit)
					} else if !errors.Is(err, errKilled) {
						t.Fatal(err)
					}
					cancel()
					synctest.Wait()
					if cut = k.seen >= step; !cut {
						return
					}
					duplicate := copyOf(t, meta)
					next := mustGuard(t, meta, bytes)
					other, err := guard(t, duplicate, bytes)
					if err != nil && !errors.Is(err, blob.ErrFenced) {
						t.Fatal(err)
					}
					time.Sleep(fenceLimit)
					owners := 0
					for _, g := range []guarded{next, other} {
						if g.Fence != nil && g.owns(t) {
							owners++
						}
					}
					if owners != 1 {
						t.Errorf("fresh %t, step %d, after %t: %d own the bytes", fresh, step, after, owners)
					}
				})
			}
		}
	}
}

type cutFacts struct {
	metastore.Properties
	*killer
}

func (m cutFacts) SetProperty(ctx context.Context, name, value string) error {
	return m.do(func() error { return m.Properties.SetProperty(ctx, name, value) })
}

func (m cutFacts) ReplaceProperty(ctx context.Context, name, old, value string) error {
	return m.do(func() error { return m.Properties.ReplaceProperty(ctx, name, old, value) })
}

type cutBytes struct {
	bytestore.Store
	*killer
}

func (b cutBytes) Put(ctx context.Context, key bytestore.Key, src io.Reader, size int64) error {
	return b.do(func() error { return b.Store.Put(ctx, key, src, size) })
}

func (b cutBytes) Delete(ctx context.Context, keys ...bytestore.Key) error {
	return b.do(func() error { return b.Store.Delete(ctx, keys...) })
}

// TestFenceOverHistories runs random histories of databases that are copied and of nodes
// that start, stop and hang. Two databases must never be permitted to delete at the same
// time, and undisturbed nodes must not wait forever.
func TestFenceOverHistories(t *testing.T) {
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) { fenceHistory(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func fenceHistory(t *testing.T, random *rand.Rand) {
	bytes := memory.New()
	databases := []*sqlstore.Store{database(t)}
	type node struct {
		guarded
		database int
	}
	var nodes []node
	for range 60 {
		switch random.IntN(6) {
		case 0:
			if len(databases) < 4 {
				databases = append(databases, copyOf(t, databases[random.IntN(len(databases))]))
			}
		case 1, 2:
			d := random.IntN(len(databases))
			g, err := guard(t, databases[d], bytes)
			if err == nil {
				nodes = append(nodes, node{g, d})
			} else if !errors.Is(err, blob.ErrFenced) {
				t.Fatal(err)
			}
		case 3:
			if len(nodes) > 0 {
				i := random.IntN(len(nodes))
				nodes[i].stop()
				if random.IntN(3) > 0 { // otherwise it hangs, and may be checked later
					nodes = append(nodes[:i], nodes[i+1:]...)
				}
			}
		}
		for range random.IntN(200) {
			owner := -1
			for _, n := range nodes {
				if random.IntN(4) > 0 || !n.owns(t) {
					continue
				}
				if owner >= 0 && owner != n.database {
					t.Fatalf("the databases %d and %d may delete", owner, n.database)
				}
				owner = n.database
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	for _, n := range nodes {
		n.stop()
	}
	owners := 0
	for _, meta := range databases {
		g, err := guard(t, meta, bytes)
		if errors.Is(err, blob.ErrFenced) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(fenceLimit)
		if g.owns(t) {
			owners++
		}
	}
	if owners != 1 {
		t.Errorf("%d databases own the bytes in the end", owners)
	}
}

// unreadable is a byte store that cannot open objects that it has, while the switch is on.
type unreadable struct {
	*memory.Store
	on atomic.Bool
}

func (s *unreadable) Open(ctx context.Context, key bytestore.Key, off, n int64) (io.ReadCloser, error) {
	r, err := s.Store.Open(ctx, key, off, n)
	if err == nil && s.on.Load() {
		return nil, errors.Join(errResponse, r.Close())
	}
	return r, err
}

// TestUnreadableEpochIsNotAFence checks that a node that cannot read its epoch reports that, and not that
// another database owns the bytes.
func TestUnreadableEpochIsNotAFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meta, store := database(t), &unreadable{Store: memory.New()}
		first := mustGuard(t, meta, store)
		time.Sleep(fenceLimit)
		if !first.owns(t) {
			t.Fatal("the first node does not own the bytes")
		}
		store.on.Store(true)
		if _, err := blob.OpenFence(t.Context(), meta, store); !errors.Is(err, errResponse) || errors.Is(err, blob.ErrFenced) {
			t.Errorf("error %v, want %v", err, errResponse)
		}
		store.on.Store(false)
		second := mustGuard(t, meta, store)
		time.Sleep(fenceLimit)
		if err := second.MayDelete(t.Context()); err != nil {
			t.Errorf("with the epoch readable again: %v", err)
		}
	})
}

// change is a call of the function of Watch.
type change struct {
	after time.Duration // since the node was started
	err   error
}

// watched starts a node and returns a function that stops it and returns its calls of the function of Watch.
func watched(t *testing.T, meta metastore.Properties, bytes bytestore.Store) (stop func() []change) {
	t.Helper()
	began := time.Now()
	f, err := blob.OpenFence(t.Context(), meta, bytes)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var changes []change
	var running sync.WaitGroup
	running.Go(func() {
		f.Watch(ctx, func(err error) { changes = append(changes, change{time.Since(began), err}) })
	})
	return func() []change { cancel(); running.Wait(); return changes }
}

// TestWatchReportsChanges checks that Watch reports each change of the result once: a node that starts again may
// delete about 20 seconds later, a copy that is started then is fenced at its next check, and a node that cannot read
// its database reports that and its recovery.
func TestWatchReportsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, original := memory.New(), database(t)
		props := &unreadableProperties{Properties: original}
		first := watched(t, original, bytes)
		time.Sleep(time.Minute)
		if got := first(); len(got) != 0 {
			t.Errorf("the first node, which may delete from its start, reports %v", got)
		}
		second := watched(t, props, bytes)
		time.Sleep(time.Minute)
		duplicate := watched(t, copyOf(t, original), bytes)
		time.Sleep(time.Minute)
		if got := duplicate(); len(got) != 1 || got[0].after > 18*time.Second || !errors.Is(got[0].err, blob.ErrFenced) {
			t.Errorf("the copy reports %v", got)
		}
		props.on.Store(true)
		time.Sleep(time.Minute)
		props.on.Store(false)
		time.Sleep(time.Minute)
		got := second()
		if len(got) != 3 || got[0].err != nil || got[0].after.Truncate(2*time.Second) != 20*time.Second || !errors.Is(got[1].err, errResponse) || got[2].err != nil {
			t.Errorf("a node that was started again reports %v", got)
		}
	})
}

// unreadableProperties are properties that cannot be read while the switch is on.
type unreadableProperties struct {
	metastore.Properties
	on atomic.Bool
}

func (p *unreadableProperties) Property(ctx context.Context, name string) (string, error) {
	if p.on.Load() {
		return "", errResponse
	}
	return p.Properties.Property(ctx, name)
}

// listHook is a byte store that calls a function once before it lists its objects.
type listHook struct {
	bytestore.Store
	before func()
}

func (s *listHook) List(ctx context.Context, after bytestore.Key, fn func(bytestore.Object) error) error {
	if s.before != nil {
		before := s.before
		s.before = nil
		before()
	}
	return s.Store.List(ctx, after, fn)
}

// TestEpochMadeDuringAStart checks that a node is not fenced by an epoch that another node of its database makes
// between its reading of the database and of the bytes, and that it reports that it cannot read the database
// again, not that another database owns the bytes.
func TestEpochMadeDuringAStart(t *testing.T) {
	for _, want := range []error{nil, errResponse} {
		synctest.Test(t, func(t *testing.T) {
			bytes, meta := memory.New(), database(t)
			mustGuard(t, meta, bytes).stop()
			props := &unreadableProperties{Properties: meta}
			store := &listHook{Store: bytes, before: func() {
				other := mustGuard(t, meta, bytes)
				time.Sleep(fenceLimit)
				if !other.owns(t) {
					t.Error("the other node made no epoch")
				}
				other.stop()
				props.on.Store(want != nil)
			}}
			_, err := blob.OpenFence(t.Context(), props, store)
			if !errors.Is(err, want) || errors.Is(err, blob.ErrFenced) {
				t.Errorf("error %v, want %v", err, want)
			}
		})
	}
}

// TestFenceBesideOtherObjects checks that a fence reads only its own objects, and that it reports a
// listing that fails.
func TestFenceBesideOtherObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, meta := memory.New(), database(t)
		for _, key := range []bytestore.Key{"00-first", blob.InstanceObject, "zz-last"} {
			if err := bytes.Put(t.Context(), key, strings.NewReader("x"), 1); err != nil {
				t.Fatal(err)
			}
		}
		node := mustGuard(t, meta, bytes)
		time.Sleep(fenceLimit)
		if err := node.MayDelete(t.Context()); err != nil {
			t.Errorf("a node that starts with other objects in the store: %v", err)
		}
		if _, err := blob.OpenFence(t.Context(), meta, brokenList{memory.New()}); !errors.Is(err, errResponse) {
			t.Errorf("a listing that fails: %v, want %v", err, errResponse)
		}
	})
}
