package history_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sluice/bytestore/bytetest"
	"sluice/bytestore/memory"
	"sluice/database"
	"sluice/history"
	"sluice/test/fault"
	"sluice/test/testenv"
)

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

// hangsOn ends the test unless the node, when it continues, finds itself fenced.
func (g guarded) hangsOn(t *testing.T, what string) {
	t.Helper()
	testenv.Is(t, g.MayDelete(t.Context()), history.ErrFenced, "a node that hung while %s", what)
}
