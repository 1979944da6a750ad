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
	"sluice/internal/testenv"
)

// folder is an instance with a database file that can be set back.
type folder struct {
	*testing.T
	path  string
	bytes *memory.Store
	db    *sqlstore.Store
	past  *Past
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
	f.past = testenv.Must(OpenPast(f.Context(), f.db, f.bytes, Options{}))(f)
	f.db.Guard(f.past.Commit)
}

func (f *folder) stop() {
	f.Helper()
	testenv.Check(f, f.db.Close())
}

// write commits a change.
func (f *folder) write(id string) error {
	return testenv.Error(f.db.CreateKey(f.Context(), testKey(id)))
}

// rest records a mark, as a node does from time to time and when it ends.
func (f *folder) rest() {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	f.past.Watch(ctx, func(error) {})
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
	testenv.Is(f, f.past.Err(), database.ErrSetBack, "%s", what)
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
	testenv.Check(t, f.past.Err())
	f.setBack(older)
	f.refuses("after it was set back")
	f.stop()
	f.start()
	f.refuses("after another start")
	testenv.Check(t, f.db.BeginGeneration(t.Context(), 1, 2, database.KeptObjects{}))
	f.past.turn(t.Context())
	testenv.Check(t, f.past.Err())
	for _, id := range []string{"two", "three", "four"} {
		testenv.Check(t, f.write(id))
		f.rest()
		f.stop()
		f.start()
		testenv.Check(t, f.past.Err())
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
	for _, r := range testenv.Must(listRecords(f.Context(), f.bytes))(f) {
		names = append(names, r.object())
	}
	return names
}

// TestSetbackIsKnownToAllNodes: what one node notices is known to another, which has not noticed
// anything, and both continue in the next generation.
// Invariant 99.
func TestSetbackIsKnownToAllNodes(t *testing.T) {
	f := newFolder(t)
	other := testenv.Must(OpenPast(t.Context(), f.db, f.bytes, Options{}))(t)
	testenv.Check(t, f.db.RecordSetback(t.Context(), 1, "seen by a third one"))
	for _, p := range []*Past{f.past, other} {
		p.turn(t.Context())
		testenv.Is(t, p.Err(), database.ErrSetBack, "after it was recorded")
	}
	testenv.Check(t, f.db.BeginGeneration(t.Context(), 1, 4, database.KeptObjects{}))
	for _, p := range []*Past{f.past, other} {
		p.turn(t.Context())
		testenv.Is(t, p.Err(), nil, "in the next generation")
		testenv.Equal(t, p.Generation(), 4, "the generation")
	}
}

// TestSetbackWhileANodeRuns: a node that has seen a mark notices that it is gone.
// Invariant 98.
func TestSetbackWhileANodeRuns(t *testing.T) {
	f := newFolder(t)
	idle := testenv.Must(OpenPast(t.Context(), f.db, f.bytes, Options{}))(t)
	older := f.copied()
	testenv.Check(t, f.write("one"))
	f.rest()
	idle.db = f.db
	idle.turn(t.Context())
	testenv.Check(t, idle.Err())
	f.stop()
	testenv.Check(t, os.WriteFile(f.path, older, 0o600))
	idle.db = testenv.Must(sqlstore.OpenSQLite(f.path, sqlstore.Options{}))(t)
	idle.turn(t.Context())
	testenv.Is(t, idle.Err(), database.ErrSetBack, "without the mark")
	f.db = idle.db.(*sqlstore.Store)
}

// TestNodesReportWhatMayBeDoneTwice: a node reports what it had acknowledged since the last of its
// marks that the database has.
// Invariant 100.
func TestNodesReportWhatMayBeDoneTwice(t *testing.T) {
	f := newFolder(t)
	var done Done
	node := testenv.Must(OpenPast(t.Context(), f.db, f.bytes, Options{Node: "one", Done: func() Done { return done }}))(t)
	leave := func() {
		done.Chunksets += 10
		done.Payments += 2
		testenv.Check(t, node.leave(t.Context()))
	}
	leave()
	node.turn(t.Context())
	older := f.copied()
	node.db = f.db
	leave()
	leave()
	done.Payments++
	f.stop()
	testenv.Check(t, os.WriteFile(f.path, older, 0o600))
	f.db = testenv.Must(sqlstore.OpenSQLite(f.path, sqlstore.Options{}))(t)
	node.db = f.db
	node.turn(t.Context())
	node.turn(t.Context())
	want := "one: the database lacks mark 3, which it had; it had acknowledged since then at most 20 chunksets used and 5 payments"
	testenv.Equal(t, testenv.Must(f.db.Past(t.Context()))(t).SetBack, want, "the report")
}

// TestMarksAreRecordedWhileANodeCommits: a node at work records a mark each period, one that does
// nothing records none, and old records are removed.
// Invariant 98.
func TestMarksAreRecordedWhileANodeCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, db := memory.New(), &marksInMemory{}
		p := testenv.Must(OpenPast(t.Context(), db, bytes, Options{}))(t)
		ctx, stop := context.WithCancel(t.Context())
		go p.Watch(ctx, func(err error) { t.Errorf("Watch found %v", err) })
		for range 10 * recordsKept {
			testenv.Check(t, p.Commit())
			time.Sleep(Every + lookEvery)
		}
		n := len(db.list)
		if n != 10*recordsKept {
			t.Errorf("%d marks after %d periods", n, 10*recordsKept)
		}
		if kept := len(testenv.Must(listRecords(ctx, bytes))(t)); kept > recordsKept+2 {
			t.Errorf("%d records are kept", kept)
		}
		time.Sleep(10 * Every)
		testenv.Equal(t, len(db.list), n, "marks without commits")
		testenv.Check(t, p.Commit())
		stop()
		synctest.Wait()
		testenv.Equal(t, len(db.list), n+1, "marks after the end")
	})
}

// TestRecordsBelongToTheOwnerOfTheBytes: a database that does not own the bytes records no mark.
// Invariant 98.
func TestRecordsBelongToTheOwnerOfTheBytes(t *testing.T) {
	f := newFolder(t)
	f.past.opt.Permitted = func() error { return context.Canceled }
	testenv.Check(t, f.write("one"))
	f.rest()
	testenv.Equal(t, len(f.records()), 0, "records")
}

func TestRecordNames(t *testing.T) {
	r := record{17, database.Mark{Sequence: 1 << 40, Nonce: "abcdefghij234567"}}
	if !r.object().Valid() {
		t.Errorf("%s is not a valid name", r.object())
	}
	got, ok := parseRecord(r.object())
	if !ok || got != r {
		t.Errorf("%s is %v, %t", r.object(), got, ok)
	}
	for _, name := range []bytestore.Name{"sluice-mark-", "sluice-mark-1-2-abc", "sluice-epoch-0000000000000001-owner", "sluice-mark-00000011-0000010000000000"} {
		if r, ok := parseRecord(name); ok {
			t.Errorf("%s is %v", name, r)
		}
	}
}
