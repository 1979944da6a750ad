package history

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/test/testenv"
)

// folder is an instance with a database file that can be set back.
type folder struct {
	*testing.T
	path  string
	bytes *memory.Store
	db    *sqlstore.Store
	node  *History
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	f := &folder{T: t, path: filepath.Join(testenv.MemoryDir(t), "meta.db"), bytes: memory.New()}
	f.start()
	t.Cleanup(f.stop)
	return f
}

func (f *folder) start() {
	f.Helper()
	f.db = testenv.Must(sqlstore.OpenSQLite(f.path, sqlstore.Options{}))(f)
	f.node = testenv.Must(Open(f.Context(), f.db, f.bytes, Options{}))(f)
	f.db.Guard(f.node.Commit)
}

func (f *folder) stop() {
	f.Helper()
	testenv.Check(f, f.db.Close())
}

// write commits a change.
func (f *folder) write(id string) error {
	return testenv.Error(f.db.CreateKey(f.Context(), testKey(id), nil, nil))
}

// rest records a mark, as a node does from time to time and when it ends.
func (f *folder) rest() {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	f.node.Watch(ctx, func(error, error) {})
}

// copied stops the instance, copies its database, and starts it again.
func (f *folder) copied() (text []byte) {
	f.Helper()
	f.stop()
	text = testenv.Must(os.ReadFile(f.path))(f)
	f.start()
	return text
}

// setBack stops the instance, replaces its database by a copy, and starts it again.
func (f *folder) setBack(text []byte) {
	f.Helper()
	f.stop()
	testenv.Check(f, os.WriteFile(f.path, text, 0o600))
	f.start()
}

// refuses checks that nothing is committed.
func (f *folder) refuses(what string) {
	f.Helper()
	testenv.Is(f, f.node.Err(), database.ErrSetBack, "%s", what)
	testenv.Is(f, f.write("refused"), database.ErrSetBack, "a write, %s", what)
}

// TestSetbackOfTheDatabase: a database that was replaced by an older copy of it is noticed by the
// next start, and by those after it, and a recovered one is not.
// Invariant 98.
func TestSetbackOfTheDatabase(t *testing.T) {
	f := newFolder(t)
	for _, id := range []string{"first", "second"} {
		testenv.Check(t, f.write(id))
		f.rest()
	}
	older := f.copied()
	for _, id := range []string{"zero", "one"} {
		testenv.Check(t, f.write(id))
		f.rest()
	}
	last := f.copied()
	testenv.Check(t, f.node.Err())
	f.setBack(older)
	f.refuses("after it was set back")
	f.stop()
	f.start()
	f.refuses("after another start")
	testenv.Check(t, f.db.BeginGeneration(t.Context(), 1, 2, 9, database.KeptObjects{}, ""))
	_ = f.node.check(t.Context())
	testenv.Check(t, f.node.Err())
	for _, id := range []string{"two", "three", "four"} {
		testenv.Check(t, f.write(id))
		f.rest()
		f.stop()
		f.start()
		testenv.Check(t, f.node.Err())
	}
	f.setBack(last)
	f.refuses("after it was set back to an earlier generation")
}

// TestSetbackOfTheBytes: bytes that lack the last record were set back.
// Invariant 98.
func TestSetbackOfTheBytes(t *testing.T) {
	f := newFolder(t)
	testenv.Check(t, f.write("one"))
	f.rest()
	older := f.records()
	testenv.Check(t, f.write("two"))
	f.rest()
	testenv.Check(t, f.write("three"))
	f.rest()
	testenv.Check(t, f.bytes.Delete(t.Context(), f.records()[len(older):]...))
	f.stop()
	f.start()
	f.refuses("without the last records")
}

func (f *folder) records() (names []bytestore.Name) {
	f.Helper()
	testenv.Check(f, list(f.Context(), f.bytes, prefix, func(o bytestore.Object, _ int64, _ string) { names = append(names, o.Name) }))
	return names
}

// TestSetbackIsKnownToAllNodes: what one node notices is known to another, which has not noticed
// anything, and both continue in the next generation.
// Invariant 99.
func TestSetbackIsKnownToAllNodes(t *testing.T) {
	f := newFolder(t)
	other := testenv.Must(Open(t.Context(), f.db, f.bytes, Options{}))(t)
	testenv.Check(t, f.db.RecordSetback(t.Context(), 1, "seen by a third one"))
	for _, p := range []*History{f.node, other} {
		_ = p.check(t.Context())
		testenv.Is(t, p.Err(), database.ErrSetBack, "after it was recorded")
	}
	testenv.Check(t, f.db.BeginGeneration(t.Context(), 1, 4, 9, database.KeptObjects{}, ""))
	for _, p := range []*History{f.node, other} {
		_ = p.check(t.Context())
		testenv.Is(t, p.Err(), nil, "in the next generation")
		testenv.Equal(t, p.Generation(), 4, "the generation")
	}
}

// TestSetbackWhileANodeRuns: a node that has seen a mark notices that it is gone.
// Invariant 98.
func TestSetbackWhileANodeRuns(t *testing.T) {
	f := newFolder(t)
	idle := testenv.Must(Open(t.Context(), f.db, f.bytes, Options{}))(t)
	older := f.copied()
	testenv.Check(t, f.write("one"))
	f.rest()
	idle.db = f.db
	_ = idle.check(t.Context())
	testenv.Check(t, idle.Err())
	f.stop()
	testenv.Check(t, os.WriteFile(f.path, older, 0o600))
	idle.db = testenv.Must(sqlstore.OpenSQLite(f.path, sqlstore.Options{}))(t)
	_ = idle.check(t.Context())
	testenv.Is(t, idle.Err(), database.ErrSetBack, "without the mark")
	f.db = idle.db.(*sqlstore.Store)
}

// TestNodesReportWhatMayBeDoneTwice: a node reports what it had acknowledged since the last of its
// marks that the database has.
// Invariant 100.
func TestNodesReportWhatMayBeDoneTwice(t *testing.T) {
	f := newFolder(t)
	var done Done
	node := testenv.Must(Open(t.Context(), f.db, f.bytes, Options{Node: "one", Done: func() Done { return done }}))(t)
	leave := func() {
		done.Chunksets += 10
		done.Payments += 2
		testenv.Check(t, node.Commit())
		node.ending = true
		testenv.Check(t, node.check(t.Context()))
	}
	leave()
	_ = node.check(t.Context())
	older := f.copied()
	node.db = f.db
	leave()
	leave()
	done.Payments++
	f.stop()
	testenv.Check(t, os.WriteFile(f.path, older, 0o600))
	f.db = testenv.Must(sqlstore.OpenSQLite(f.path, sqlstore.Options{}))(t)
	node.db = f.db
	_ = node.check(t.Context())
	_ = node.check(t.Context())
	want := "one: the database lacks record 3, which it had; it had acknowledged since then at most 20 chunksets used and 5 payments"
	testenv.Equal(t, testenv.Must(f.db.History(t.Context()))(t).SetBack, want, "the report")
}

// TestRecordsFollowCommits: a node at work adds a record each period, one that does nothing adds
// none, and old records are removed.
// Invariants 96, 98.
func TestRecordsFollowCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, db := memory.New(), &recordsInMemory{}
		h := testenv.Must(Open(t.Context(), db, bytes, Options{}))(t)
		ctx, stop := context.WithCancel(t.Context())
		go h.Watch(ctx, func(_, err error) { t.Errorf("Watch found %v", err) })
		for range 10 * recordsKept {
			testenv.Check(t, h.Commit())
			time.Sleep(Every + checkEvery)
		}
		n := len(db.list)
		if n != 10*recordsKept {
			t.Errorf("%d records after %d periods", n, 10*recordsKept)
		}
		kept := 0
		testenv.Check(t, list(ctx, bytes, prefix, func(bytestore.Object, int64, string) { kept++ }))
		if kept < recordsKept || kept > 2*recordsKept {
			t.Errorf("%d records are kept", kept)
		}
		time.Sleep(10 * Every)
		testenv.Equal(t, len(db.list), n, "records without commits")
		testenv.Check(t, h.Commit())
		stop()
		synctest.Wait()
		testenv.Equal(t, len(db.list), n+1, "records after the end")
	})
}
