package storage

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/internal/datadir"
	"sluice/test/testenv"
)

const lookedAtBlobs = 3

// newFolder returns a data folder with some blobs, each of one object, that nobody uses.
func newFolder(t *testing.T) string {
	t.Helper()
	data := filepath.Join(testenv.MemoryDir(t), "data")
	s := testenv.Must(Open(t.Context(), Location{Data: data}, Options{}))(t)
	opt := s.BlobOptions()
	opt.InlineSize = -1
	blobs := blob.New(s.Meta, s.Bytes, opt)
	for i := range lookedAtBlobs {
		testenv.Must(blobs.Put(t.Context(), blob.PutOptions{Account: "a", Name: fmt.Sprint("blob", i)}, bytes.NewReader(make([]byte, 1000)), 1000))(t)
	}
	testenv.OK(t, s.Close())
	return data
}

// copyOf copies a folder and returns the copy.
func copyOf(t *testing.T, data string) string {
	t.Helper()
	copied := filepath.Join(testenv.MemoryDir(t), "copy")
	testenv.OK(t, os.CopyFS(copied, os.DirFS(data)))
	return copied
}

// open opens a folder as a node does, until the test ends or the stores are closed, and returns the
// steps of its check.
func open(t *testing.T, data string) (s *Stores, steps []Steps) {
	t.Helper()
	s = testenv.Must(Open(t.Context(), Location{Data: data}, Options{Looking: func(now Steps) error {
		steps = append(steps, now)
		return nil
	}}))(t)
	testenv.AtEnd(t, s.Close)
	return s, steps
}

// damage overwrites a page with which the table begins that lists open uploads.
func damage(t *testing.T, data string) {
	t.Helper()
	file := filepath.Join(data, datadir.Database)
	db := testenv.Must(sql.Open("sqlite", file))(t)
	var page int64
	testenv.OK(t, db.QueryRowContext(t.Context(), `SELECT rootpage FROM sqlite_master WHERE name = 'uploads'`).Scan(&page))
	testenv.OK(t, db.Close())
	f := testenv.Must(os.OpenFile(file, os.O_WRONLY, 0))(t)
	_, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, 4096), (page-1)*4096)
	testenv.OK(t, errors.Join(err, f.Close()))
}

// objectOf returns the file with a blob's object.
func objectOf(t *testing.T, s *Stores, data, name string) string {
	t.Helper()
	_, extents, err := s.Meta.OpenBlob(t.Context(), "a", name)
	testenv.OK(t, err)
	object := extents[0].Object
	found := testenv.Must(filepath.Glob(filepath.Join(data, datadir.Bytes, "*", "*"+object)))(t)
	found = append(found, testenv.Must(filepath.Glob(filepath.Join(data, datadir.Bytes, "*", object[2:])))(t)...)
	if len(found) != 1 {
		t.Fatalf("the object %s is in the files %v", object, found)
	}
	return found[0]
}

// TestCopyIsCheckedOnce opens a copied folder, and one that has no record like those from an
// earlier version: all is checked at first, and not again.
// Invariant 110.
func TestCopyIsCheckedOnce(t *testing.T) {
	data := newFolder(t)
	s, steps := open(t, data)
	if len(steps) > 0 || s.Look.Why != "" {
		t.Errorf("a folder that was created here was checked in %v", steps)
	}
	testenv.OK(t, s.Close())
	earlier := copyOf(t, data)
	testenv.OK(t, os.Remove(filepath.Join(earlier, datadir.Database+"-record")))
	for name, folder := range map[string]string{"a copy": copyOf(t, data), "an earlier version's folder": earlier} {
		s, steps := open(t, folder)
		pages := slices.ContainsFunc(steps, func(one Steps) bool { return one.What == "pages" && one.Done == one.Total-1 })
		if !pages || len(steps) == 0 || steps[len(steps)-1].What != "objects" || s.Look.Why == "" || s.Look.Found.Objects != lookedAtBlobs || s.Look.SetBack() != "" {
			t.Errorf("%s was checked in %v: %+v", name, steps, s.Look)
		}
		testenv.OK(t, s.Ready(t.Context()))
		testenv.OK(t, s.Close())
		if s, steps := open(t, folder); len(steps) > 0 || s.Look.Why != "" {
			t.Errorf("%s was checked again in %v", name, steps)
		}
	}
}

// TestLookIsInterrupted ends an opening before each step: the next one checks again.
// Invariant 110.
func TestLookIsInterrupted(t *testing.T) {
	data := copyOf(t, newFolder(t))
	end := errors.New("end")
	for n := 0; ; n++ {
		left := n
		s, err := Open(t.Context(), Location{Data: data}, Options{Looking: func(Steps) error {
			if left--; left < 0 {
				return end
			}
			return nil
		}})
		if err == nil {
			testenv.OK(t, s.Close())
			if n < 10 {
				t.Errorf("the check has %d steps", n)
			}
			return
		}
		testenv.Is(t, err, end, "an opening that ends before step %d", n)
	}
}

// TestCopyWithoutObjects opens a copy in which an object is missing and one is cut. Open reports
// both, the instance counts as set back, and the next opening knows it without a check.
// Invariant 111.
func TestCopyWithoutObjects(t *testing.T) {
	original := newFolder(t)
	s, _ := open(t, original)
	missing, cut := objectOf(t, s, original, "blob0"), objectOf(t, s, original, "blob2")
	testenv.OK(t, s.Close())
	data := copyOf(t, original)
	in := func(name string) string { return filepath.Join(data, strings.TrimPrefix(name, original)) }
	testenv.OK(t, errors.Join(os.Remove(in(missing)), os.Truncate(in(cut), 999)))
	for _, checked := range []bool{true, false} {
		s, steps := open(t, data)
		testenv.Is(t, s.History.Err(), database.ErrSetBack, "a copy that lacks objects")
		for _, want := range []string{"2 of 3 objects are missing or cut", `"a/blob0"`, `"a/blob2"`, "run sluice recover"} {
			if err := s.Ready(t.Context()); !strings.Contains(err.Error(), want) {
				t.Errorf("%v lacks %q", err, want)
			}
		}
		if found := s.Look.Found; checked && (found.Missing != 2 || found.MissingBytes != 2000 || found.DamagedBlobs != 2 || len(found.Blobs) != 2) {
			t.Errorf("found %+v", found)
		}
		testenv.Equal(t, len(steps) > 0, checked, "it is checked")
		testenv.OK(t, s.Close())
	}
}

// TestDamagedCopy opens a copy with damaged pages, and then one in which they were replaced: the
// first is refused, and the second may lack changes.
// Invariant 111.
func TestDamagedCopy(t *testing.T) {
	original := newFolder(t)
	data := copyOf(t, original)
	damage(t, data)
	for range 2 {
		_, err := Open(t.Context(), Location{Data: data}, Options{})
		testenv.Is(t, err, ErrDamaged, "a damaged copy")
		if !strings.Contains(err.Error(), "Tree") {
			t.Errorf("%v names no page", err)
		}
	}
	_, err := OpenEndpoint(t.Context(), Location{Data: data}, true, nil)
	testenv.Is(t, err, ErrDamaged, "a damaged endpoint")
	testenv.OK(t, os.Remove(filepath.Join(data, datadir.Database)))
	whole := testenv.Must(os.ReadFile(filepath.Join(original, datadir.Database)))(t)
	testenv.OK(t, os.WriteFile(filepath.Join(data, datadir.Database), whole, 0o600))
	s, _ := open(t, data)
	if err := s.History.Err(); !errors.Is(err, database.ErrSetBack) || !strings.Contains(err.Error(), "may lack changes") {
		t.Errorf("what has replaced a damaged database: %v", err)
	}
}

// TestQuickCheckAtAStart damages pages in the file that is recorded: the next opening finds it and
// is not ready, and the one after it is refused.
// Invariant 112.
func TestQuickCheckAtAStart(t *testing.T) {
	data := newFolder(t)
	damage(t, data)
	damaged := make(chan error, 1)
	s := testenv.Must(Open(t.Context(), Location{Data: data}, Options{Damaged: func(err error) { damaged <- err }}))(t)
	testenv.Is(t, <-damaged, sqlstore.ErrCorrupt, "the error that is reported")
	testenv.Is(t, s.Ready(t.Context()), sqlstore.ErrCorrupt, "whether it is ready")
	testenv.OK(t, s.Close())
	_, err := Open(t.Context(), Location{Data: data}, Options{})
	testenv.Is(t, err, ErrDamaged, "the next opening")
}

// TestDamageBeforeTheQuickCheck damages all pages in the file that is recorded, so that it cannot
// be opened: this is remembered like the quick check's findings.
// Invariant 112.
func TestDamageBeforeTheQuickCheck(t *testing.T) {
	data := newFolder(t)
	testenv.OK(t, os.WriteFile(filepath.Join(data, datadir.Database), bytes.Repeat([]byte{0xa5}, 100_000), 0o600))
	_, err := Open(t.Context(), Location{Data: data}, Options{})
	testenv.Is(t, err, sqlstore.ErrCorrupt, "the opening")
	_, err = Open(t.Context(), Location{Data: data}, Options{})
	testenv.Is(t, err, ErrDamaged, "the next opening")
}

// TestQuickCheckGoesOn checks how long a start waits for a quick check, that the check rests only
// after that, and that it can be interrupted.
// Invariant 112.
func TestQuickCheckGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		steps := 0
		check := func(ctx context.Context, rest func(time.Duration)) error {
			for ; ctx.Err() == nil; steps++ {
				time.Sleep(time.Second)
				rest(time.Second)
			}
			return ctx.Err()
		}
		told := func(err error) { t.Errorf("an interruption is told: %v", err) }
		stop := startQuickCheck(5500*time.Millisecond, check, told)
		testenv.Equal(t, time.Since(began), 5500*time.Millisecond, "how long the start has waited")
		time.Sleep(time.Minute)
		synctest.Wait()
		if steps < 5+28 || steps > 5+32 {
			t.Errorf("%d steps in 5 seconds without rest and a minute with rest", steps)
		}
		stop()

		began = time.Now()
		failed := errors.New("failed")
		var found error
		stop = startQuickCheck(time.Minute, func(context.Context, func(time.Duration)) error { return failed }, func(err error) { found = err })
		testenv.Is(t, found, failed, "the finding")
		testenv.Equal(t, time.Since(began), 0, "how long the start has waited for a check that ended")
		stop()
	})
}

// TestCompareNamesSome checks that no more blobs are named than wanted, and that all are counted.
func TestCompareNamesSome(t *testing.T) {
	data := newFolder(t)
	s, _ := open(t, data)
	for i := range lookedAtBlobs {
		_, extents, err := s.Meta.OpenBlob(t.Context(), "a", fmt.Sprint("blob", i))
		testenv.OK(t, err)
		testenv.OK(t, s.Bytes.Delete(t.Context(), bytestore.Name(extents[0].Object)))
	}
	found, err := compare(t.Context(), s.sql, s.Bytes, 1, func(int64) error { return nil })
	testenv.OK(t, err)
	if found.DamagedBlobs != lookedAtBlobs || found.More || !slices.Equal(found.Blobs, []string{"a/blob0"}) {
		t.Errorf("found %+v", found)
	}
}
