package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/database"
	"sluice/test/testenv"
)

// addChange returns a call that stores a fact and a change.
func addChange(name string) func(*Tx) error {
	return func(t *Tx) error {
		t.EndChange(append(t.BeginChange(), name...))
		return insertFact(name)(t)
	}
}

// storedChanges returns the table's changes, and how many rows it has. Numbers must have no gaps.
func storedChanges(t *testing.T, s testDB) (list []string, rows int) {
	t.Helper()
	var row ChangeRow
	var sum StoredSum
	testenv.OK(t, s.Read(t.Context(), func(tx *Tx) error {
		return tx.Each(`SELECT `+ChangeColumns+` FROM changes ORDER BY last`, nil,
			Args{(*Integer)(&row.Last), (*Integer)(&row.At), &row.Packed, &sum}, func() error {
				rows++
				testenv.Equal(t, testenv.Must(row.Before())(t), int64(len(list)), "the number before row %d", rows)
				if sum.Differs(row.Sum()) {
					t.Errorf("row %d has another checksum", rows)
				}
				for change, err := range Unpack(row.Packed) {
					testenv.OK(t, err)
					list = append(list, string(change))
				}
				return nil
			})
	}))
	return list, rows
}

// TestChangesOfABatch runs calls with changes in one batch. A call fails, and the table lacks its
// changes only. They are in one row, or if that call has ended the transaction in a row for each
// call before it, and one for the calls behind.
func TestChangesOfABatch(t *testing.T) {
	for name, c := range map[string]struct {
		bad  func(*Tx) error
		rows int
	}{
		"none fails": {addChange("good"), 1},
		"before a change": {func(t *Tx) error {
			t.EndChange(append(t.BeginChange(), "bad"...))
			return errPoison
		}, 1},
		"after a change": {func(t *Tx) error { return errors.Join(addChange("bad")(t), errPoison) }, 5},
		"panic": {func(t *Tx) error {
			if err := addChange("bad")(t); err != nil {
				return err
			}
			panic("poison")
		}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			s, w := openWithWriter(t, databasePath(t))
			g := holdWriter(t, s)
			results := make(chan bool, 10)
			call := func(fn func(*Tx) error) {
				go func() {
					defer func() { results <- recover() == nil }()
					if err := s.Write(context.Background(), fn); err != nil {
						panic(err)
					}
				}()
			}
			for i := range 10 {
				if fn := addChange(fmt.Sprint("good", i)); i == 4 {
					call(c.bad)
				} else {
					call(fn)
				}
				queued(w, i+1) // in this order
			}
			close(g.open)
			testenv.Is(t, <-g.result, nil, "the call at the head of the batch")
			good := 0
			for range 10 {
				if <-results {
					good++
				}
			}
			list, rows := storedChanges(t, s)
			testenv.Equal(t, len(list), good, "the number of changes")
			testenv.Equal(t, rows, c.rows, "the number of rows")
			for _, change := range list {
				if !strings.HasPrefix(change, "good") {
					t.Errorf("the table has the change %q", change)
				}
			}
			testenv.OK(t, s.Write(t.Context(), addChange("last")))
			after, _ := storedChanges(t, s)
			testenv.Equal(t, strings.Join(after, " "), strings.Join(append(list, "last"), " "), "the changes after one more")
		})
	}
}

// TestChangesThatCannotBeStored lets the insertion of a batch's changes fail. Only the calls with
// changes fail.
func TestChangesThatCannotBeStored(t *testing.T) {
	s, w := openWithWriter(t, databasePath(t))
	execute(t, s, `CREATE TRIGGER refuse BEFORE INSERT ON changes BEGIN SELECT RAISE(ABORT, 'refused'); END`)
	g := holdWriter(t, s)
	changed, plain := make(chan error, 1), make(chan error, 1)
	go func() { changed <- s.Write(context.Background(), addChange("changed")) }()
	go func() { plain <- s.setFact(context.Background(), "plain", "v") }()
	queued(w, 2)
	close(g.open)
	testenv.Is(t, <-g.result, nil, "the call at the head of the batch")
	testenv.Is(t, <-plain, nil, "the call without a change")
	if <-changed == nil {
		t.Error("a call was acknowledged whose change was not stored")
	}
	testenv.Is(t, testenv.Error(s.fact(t.Context(), "changed")), database.ErrNotFound, "the fact of the call with a change")
	execute(t, s, `DROP TRIGGER refuse`)
	testenv.OK(t, s.Write(t.Context(), addChange("later")))
	list, _ := storedChanges(t, s)
	testenv.Equal(t, strings.Join(list, " "), "later", "the changes")
}

// TestChangesOfSeveralStores lets two stores with one database write in turns. No number is used
// twice.
func TestChangesOfSeveralStores(t *testing.T) {
	path := databasePath(t)
	stores := []testDB{openAt(t, path, Options{}), openAt(t, path, Options{})}
	var want []string
	for i := range 9 {
		var names []string
		for j := range 1 + i%3 { // so that numbers of a row's end differ
			names = append(names, fmt.Sprint(i, "-", j))
		}
		testenv.OK(t, stores[i/2%2].Write(t.Context(), func(tx *Tx) error {
			for _, name := range names {
				if err := addChange(name)(tx); err != nil {
					return err
				}
			}
			return nil
		}))
		want = append(want, names...)
	}
	list, _ := storedChanges(t, stores[0])
	testenv.Equal(t, strings.Join(list, " "), strings.Join(want, " "), "the changes")
}

// TestChangesAreSplit stores transactions with many and with long changes. No row exceeds its
// bounds, unless it has one change alone.
func TestChangesAreSplit(t *testing.T) {
	s := openAt(t, databasePath(t), Options{})
	var want []string
	for _, c := range []struct{ count, size int }{{2*maxRowChanges + 1, 5}, {maxRowChanges, 9}, {7, maxRowBytes / 3}, {2, maxRowBytes}, {3, 2 * maxRowBytes}, {1, 1}} {
		testenv.OK(t, s.Write(t.Context(), func(t *Tx) error {
			for i := range c.count {
				change := strings.Repeat(string(rune('a'+i%26)), c.size)
				t.EndChange(append(t.BeginChange(), change...))
				want = append(want, change)
			}
			return nil
		}))
	}
	list, rows := storedChanges(t, s)
	if !slices.Equal(list, want) {
		t.Error("the changes differ")
	}
	testenv.Equal(t, rows, 3+1+4+2+3+1, "the number of rows")
}

// FuzzUnpack checks that a run of changes is refused, or returned as it was packed.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 'a', 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, packed []byte) {
		var run ChangeRun
		for change, err := range Unpack(packed) {
			if err != nil {
				if (&ChangeRun{}).Append(packed) == nil {
					t.Error("a damaged run was appended")
				}
				return
			}
			run.Add(change)
		}
		var copied ChangeRun
		testenv.OK(t, copied.Append(packed))
		testenv.Equal(t, copied.Count, run.Count, "the number of changes")
		if !bytes.Equal(run.Packed, packed) {
			t.Errorf("%x was packed as %x", packed, run.Packed)
		}
		last, count := int64(5), run.Count
		for row, ok := run.Cut(last); ok; row, ok = run.Cut(last) {
			testenv.Equal(t, testenv.Must(row.Before())(t), last, "the number before a row")
			last = row.Last
		}
		testenv.Equal(t, last, 5+count, "the last row's number")
	})
}
