package history_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/bytetest"
	"sluice/bytestore/memory"
	"sluice/database"
	"sluice/history"
	"sluice/test/fault"
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

// TestCopyWhileTheOriginalRuns starts a copy while its original runs. The copy must be fenced
// before it may delete anything, and the original must continue.
// Invariant 94.
func TestCopyWhileTheOriginalRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, original := memory.New(), openMeta(t)
		first := mustGuard(t, original, bytes)
		first.wantHolder(t, "the first start of an instance waits")
		for round := range 3 {
			duplicate := mustGuard(t, copyOf(t, original), bytes)
			for began := time.Now(); duplicate.Err() == nil; time.Sleep(100 * time.Millisecond) {
				if duplicate.holds(t) || !first.holds(t) {
					t.Fatalf("round %d, after %s: the copy may delete: %t, the original %t", round, time.Since(began), duplicate.holds(t), first.holds(t))
				}
				// The original responds at its next check, and the copy notices at its own.
				if time.Since(began) > 18*time.Second {
					t.Fatal("the copy is not fenced")
				}
			}
			if err := duplicate.Err(); !errors.Is(err, history.ErrFenced) || !strings.Contains(err.Error(), "run sluice recover for it") {
				t.Errorf("the fence of the copy is %v", err)
			}
			time.Sleep(time.Hour)
			if duplicate.holds(t) || !first.holds(t) {
				t.Errorf("an hour later the copy may delete: %t, the original: %t", duplicate.holds(t), first.holds(t))
			}
		}
	})
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

// TestNodesOfOneDatabase checks that nodes of one database never fence each other, whether they
// start concurrently, one after the other, or again after all were killed, and that a node that
// joins a running one is soon permitted to delete.
// Invariant 94.
func TestNodesOfOneDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = 3
		bytes, meta := memory.New(), openMeta(t)
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
				g.wantHolder(t, "%s: node %d", what, i)
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

// TestFenceOfAHolderThatHangs suspends a holder. Before it deletes again it must notice that a copy
// has become the holder.
func TestFenceOfAHolderThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, original := memory.New(), openMeta(t)
		holder, err := history.Open(t.Context(), original, bytes, shared) // its Watch does not run
		testenv.OK(t, err)
		hangs := guarded{History: holder}
		copied := copyOf(t, original)
		duplicate := mustGuard(t, copied, bytes)
		time.Sleep(fenceLimit)
		duplicate.wantHolder(t, "the copy of a hanging holder")
		duplicate.stop()
		hangs.hangsOn(t, "a copy has taken the bytes")
		// Old epochs are removed, the database's among them.
		hung := testenv.Must(history.Open(t.Context(), copied, bytes, shared))(t)
		time.Sleep(fenceLimit)
		testenv.OK(t, hung.MayDelete(t.Context()))
		other := copyOf(t, copied)
		for range 20 {
			g := mustGuard(t, other, bytes)
			time.Sleep(fenceLimit)
			g.stop()
		}
		guarded{History: hung}.hangsOn(t, "a copy has removed its epoch")
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

// hangsOn ends the test unless the node, when it continues, finds itself fenced.
func (g guarded) hangsOn(t *testing.T, what string) {
	t.Helper()
	testenv.Is(t, g.MayDelete(t.Context()), history.ErrFenced, "a node that hung while %s", what)
}

// TestFenceCutAtEachStep kills a node at each step. The next start of its database must soon be a
// holder. If a copy was made at the kill, exactly one of the two must, whichever starts first.
// Invariant 94.
func TestFenceCutAtEachStep(t *testing.T) {
	t.Parallel()
	for _, fresh := range []bool{true, false} {
		for _, kind := range kills {
			for _, copyFirst := range []bool{false, true} {
				for step, cut := 1, true; cut; step++ {
					synctest.Test(t, func(t *testing.T) { cut = cutAt(t, killedAt(step, kind), fresh, copyFirst) })
				}
			}
		}
	}
}

// cutAt kills a node at a step. It returns false if there is no such step.
func cutAt(t *testing.T, k *fault.Point[string], fresh, copyFirst bool) bool {
	bytes, meta := memory.New(), openMeta(t)
	if !fresh {
		mustGuard(t, meta, bytes).stop()
	}
	ctx, cancel := context.WithCancel(t.Context())
	if h, err := history.Open(ctx, cutFacts{meta, k}, bytetest.Faulty{Store: bytes, Point: k}, shared); err == nil {
		go h.Watch(ctx, func(error, error) {})
		time.Sleep(fenceLimit)
		if h.Commit() == nil { // else it was killed
			time.Sleep(fenceLimit)
		}
	} else if !errors.Is(err, fault.ErrFault) {
		t.Fatal(err)
	}
	cancel()
	synctest.Wait()
	if !k.Struck() {
		return false
	}
	databases := []*metaFile{meta, copyOf(t, meta)}
	if copyFirst {
		slices.Reverse(databases)
	}
	var nodes []guarded
	for i, meta := range databases {
		g, err := guard(t, meta, bytes)
		if i == 0 {
			testenv.OK(t, err)
		}
		if err == nil {
			nodes = append(nodes, g)
		} else if !errors.Is(err, history.ErrFenced) {
			t.Fatal(err)
		}
		time.Sleep(fenceLimit)
	}
	for i, g := range nodes {
		if g.holds(t) != (i == 0) {
			t.Errorf("fresh %t, copy first %t, step %d %s: node %d holds the bytes: %t", fresh, copyFirst, k.K, k.Kind, i, i != 0)
		}
	}
	return true
}

type cutFacts struct {
	*metaFile
	*fault.Point[string]
}

func (m cutFacts) SetProperty(ctx context.Context, name, value string) error {
	return m.Do("change", func() error { return m.metaFile.SetProperty(ctx, name, value) })
}

func (m cutFacts) ReplaceProperty(ctx context.Context, name, old, value string) error {
	return m.Do("change", func() error { return m.metaFile.ReplaceProperty(ctx, name, old, value) })
}

func (m cutFacts) AddRecord(ctx context.Context, generation int64, after database.Record, owner string) (r database.Record, err error) {
	return r, m.Do("change", func() error { r, err = m.metaFile.AddRecord(ctx, generation, after, owner); return err })
}

func (m cutFacts) RecordOutside(ctx context.Context, generation int64, r database.Record) error {
	return m.Do("change", func() error { return m.metaFile.RecordOutside(ctx, generation, r) })
}

// TestFenceOverHistories runs random histories of databases that are copied, also a long time
// before the copy is used, and of nodes that start, stop, hang, and commit. Two databases must
// never be permitted to delete at the same time; once a database has committed, those that
// committed before must not commit any more; a node that neither hangs nor stops must not be fenced
// once it is a holder; and undisturbed nodes must not wait forever.
// Invariant 94.
func TestFenceOverHistories(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) { fenceHistory(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

// historyNode is a node in a history.
type historyNode struct {
	guarded
	database int
	hangs    bool // its Watch has ended
	owned    bool // it was permitted to commit
}

// course is a random history's state.
type course struct {
	t         *testing.T
	bytes     *memory.Store
	databases []*metaFile
	backups   []*metaFile // copies that no node uses yet
	nodes     []*historyNode
	last      int          // database that committed last; -1: none
	passed    map[int]bool // databases that committed before it
	commits   int
}

// commit lets a node commit, if it may.
func (h *course) commit(n *historyNode) {
	err := n.Commit()
	switch {
	case err == nil && h.passed[n.database]:
		h.t.Fatalf("database %d commits after database %d has", n.database, h.last)
	case err == nil:
		h.commits++
		n.owned = true
		if n.database != h.last && h.last >= 0 {
			h.passed[h.last] = true
		}
		h.last = n.database
	case err != nil && !errors.Is(err, history.ErrFenceWaits) && n.owned && !n.hangs:
		h.t.Fatalf("a node of database %d that has always run was fenced: %v", n.database, err)
	case !isRefusal(err):
		h.t.Fatal(err)
	}
}

func fenceHistory(t *testing.T, random *rand.Rand) {
	h := &course{t: t, bytes: memory.New(), databases: []*metaFile{openMeta(t)}, last: -1, passed: map[int]bool{}}
	for range 60 {
		switch random.IntN(7) {
		case 0:
			if len(h.databases) < 4 {
				h.databases = append(h.databases, copyOf(t, h.databases[random.IntN(len(h.databases))]))
			}
		case 1:
			h.backups = append(h.backups, copyOf(t, h.databases[random.IntN(len(h.databases))]))
		case 2:
			if len(h.backups) > 0 && len(h.databases) < 6 { // of any age
				i := random.IntN(len(h.backups))
				h.databases = append(h.databases, h.backups[i])
				h.backups = slices.Delete(h.backups, i, i+1)
			}
		case 3, 4:
			d := random.IntN(len(h.databases))
			g, err := guard(t, h.databases[d], h.bytes)
			if err == nil {
				h.nodes = append(h.nodes, &historyNode{guarded: g, database: d})
			} else if !errors.Is(err, history.ErrFenced) {
				t.Fatal(err)
			}
		case 5:
			if len(h.nodes) > 0 {
				i := random.IntN(len(h.nodes))
				h.nodes[i].stop()
				if h.nodes[i].hangs = true; random.IntN(3) > 0 { // otherwise it may be checked later
					h.nodes = slices.Delete(h.nodes, i, i+1)
				}
			}
		case 6:
			time.Sleep(time.Duration(random.IntN(300)) * time.Second)
		}
		for range random.IntN(200) {
			holder := -1
			for _, n := range h.nodes {
				if random.IntN(3) == 0 {
					h.commit(n)
				}
				if random.IntN(4) > 0 || !n.holds(t) {
					continue
				}
				if holder >= 0 && holder != n.database {
					t.Fatalf("the databases %d and %d may delete", holder, n.database)
				}
				holder = n.database
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	for _, n := range h.nodes {
		n.stop()
	}
	if h.commits == 0 {
		t.Error("nothing was committed")
	}
	h.end()
}

// end starts the databases one after the other. One must become the holder, unless equal ones or
// such as stopped before they were holders refuse each other. Then one of them must become the
// holder by a recovery.
func (h *course) end() {
	t := h.t
	holders := 0
	start := func(meta *metaFile) {
		g, err := guard(t, meta, h.bytes)
		if errors.Is(err, history.ErrFenced) {
			return
		}
		testenv.OK(t, err)
		time.Sleep(fenceLimit)
		if g.holds(t) {
			holders++
		}
	}
	for _, meta := range h.databases {
		start(meta)
	}
	if holders == 0 {
		testenv.Must(history.Recover(t.Context(), h.databases[0], h.bytes, database.KeptObjects{}))(t)
		start(h.databases[0])
	}
	if holders != 1 {
		t.Errorf("%d databases hold the bytes in the end", holders)
	}
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

// TestOldBackupsAreRefused checks that a copy changes nothing once its original has committed
// something more, even if no node of the original has started since and none runs, and that it is
// refused once one has started.
// Invariant 96.
func TestOldBackupsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, original := memory.New(), openMeta(t)
		nodes := []guarded{mustGuard(t, original, bytes)}
		time.Sleep(fenceLimit)
		nodes = append(nodes, mustGuard(t, original, bytes))
		time.Sleep(fenceLimit)
		before := copyOf(t, original)
		testenv.OK(t, nodes[1].Commit())
		time.Sleep(history.Every + 3*time.Second)
		for _, g := range nodes {
			testenv.Is(t, errors.Join(g.MayCommit(), g.MayDelete(t.Context())), nil, "a node of the original")
			g.stop()
		}
		behind := mustGuard(t, copyOf(t, before), bytes)
		time.Sleep(time.Hour)
		for what, err := range map[string]error{"commit": behind.MayCommit(), "delete": behind.MayDelete(t.Context())} {
			testenv.Is(t, err, database.ErrSetBack, "a copy that wants to %s", what)
		}
		behind.stop()
		mustGuard(t, original, bytes)
		time.Sleep(fenceLimit)
		testenv.Is(t, testenv.Error(guard(t, before, bytes)), history.ErrFenced, "a copy from before a start")
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

// change is a call of Watch's function.
type change struct {
	after time.Duration // since the node was started
	err   error
}

// watched starts a node and returns a function that stops it and returns the calls of Watch's
// function.
func watched(t *testing.T, meta history.Database, bytes bytestore.Store) (stop func() []change) {
	t.Helper()
	began := time.Now()
	f := testenv.Must(history.Open(t.Context(), meta, bytes, shared))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var changes []change
	var running sync.WaitGroup
	running.Go(func() {
		f.Watch(ctx, func(_, err error) { changes = append(changes, change{time.Since(began), err}) })
	})
	return func() []change { cancel(); running.Wait(); return changes }
}

// TestWatchReportsChanges checks that Watch reports each change once: a node that starts again may
// delete about 20 seconds later, a copy that is started then is fenced at its next check, and a
// node that cannot read its database reports that and its recovery.
func TestWatchReportsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, original := memory.New(), openMeta(t)
		props := &unreadableMeta{metaFile: original}
		first := watched(t, original, bytes)
		time.Sleep(time.Minute)
		if got := first(); len(got) != 0 {
			t.Errorf("the first node, which may delete from its start, reports %v", got)
		}
		second := watched(t, props, bytes)
		time.Sleep(time.Minute)
		duplicate := watched(t, copyOf(t, original), bytes)
		time.Sleep(time.Minute)
		if got := duplicate(); len(got) != 1 || got[0].after > 18*time.Second || !errors.Is(got[0].err, history.ErrFenced) {
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
