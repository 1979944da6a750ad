package instance

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sluice/backup"
	"sluice/blob"
	"sluice/bytestore"
	"sluice/metastore"
	"sluice/storage"
	"sluice/test/testenv"
)

// hesitant is a store in which each object seems to be damaged when it is first opened, and has
// nothing when it is listed.
type hesitant struct {
	bytestore.Store
	how string // missing, cut or flipped

	mu     *sync.Mutex
	opened map[bytestore.Name]bool
}

func newHesitant(s bytestore.Store, how string) hesitant {
	return hesitant{s, how, &sync.Mutex{}, map[bytestore.Name]bool{}}
}

func (s hesitant) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	s.mu.Lock()
	again := s.opened[name]
	s.opened[name] = true
	s.mu.Unlock()
	if again {
		return s.Store.Open(ctx, name, off, n)
	}
	return damagedStore{s.Store, bytestore.Object{Name: name}, s.how}.Open(ctx, name, off, n)
}

// TestDamageIsLookedForAgain: a backup has everything, and a check finds nothing, if
// each object seems to be damaged once.
// Invariant 113.
func TestDamageIsLookedForAgain(t *testing.T) {
	data := newSource(t)
	for _, how := range []string{"missing", "cut", "flipped"} {
		source := func() *storage.Endpoint {
			e := testenv.Must(storage.OpenReader(t.Context(), Location{Data: data}))(t)
			testenv.AtEnd(t, e.Close)
			e.Bytes = newHesitant(e.Bytes, how)
			return e
		}
		b := &backuper{source: source(), repo: newRepository(), progress: newReporter(nil, nil)}
		m := testenv.Must(b.run(t.Context()))(t)
		if b.objects == 0 || len(m.Damaged) > 0 {
			t.Errorf("%s: the backup has %d objects and lacks %q", how, b.objects, m.Damaged)
		}
		k := &checker{e: source(), progress: newReporter(nil, nil), lacking: map[metastore.ContentID]bool{}}
		testenv.OK(t, k.bytes(t.Context(), true))
		if k.found.Found > 0 {
			t.Errorf("%s: a check has found %+v", how, k.found.Findings)
		}
	}
}

// TestListingsAreLookedAtAgain: an object that a listing lacks, or has with another size, is there.
// Invariant 113.
func TestListingsAreLookedAtAgain(t *testing.T) {
	data := newSource(t)
	for _, how := range []string{"missing", "cut"} {
		e := testenv.Must(storage.OpenReader(t.Context(), Location{Data: data}))(t)
		testenv.AtEnd(t, e.Close)
		named := bytestore.Object{Name: bytestore.Name(filepath.Base(objectFiles(t, data)[0]))}
		whole := e.Bytes
		listed := wrongList{whole, damagedStore{whole, named, how}}
		e.Bytes = listed
		found := testenv.Must(e.Compare(t.Context(), 10))(t)
		testenv.Equal(t, found.Missing, 0, "objects that are missing, %s", how)
		k := &checker{e: e, progress: newReporter(nil, nil), lacking: map[metastore.ContentID]bool{}}
		testenv.OK(t, k.objects(t.Context()))
		testenv.Equal(t, k.found.Found, 0, "findings, %s", how)

		repo := newRepository()
		made := backedUp(t, data, repo)
		repo.Bytes = wrongList{repo.Bytes, damagedStore{repo.Bytes, named, how}}
		testenv.Must(repo.Verify(t.Context(), made.Manifest, backup.VerifyOptions{}))(t)
	}
}

// wrongList is a store with another store's listing.
type wrongList struct {
	bytestore.Store
	list bytestore.Store
}

func (s wrongList) List(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
	return s.list.List(ctx, after, fn)
}

// TestLongerObject: an object to which something was appended is read, backed up, and is neither
// missing nor damaged for a check that reads it, for a start on a copy, and for a recovery. The
// check reports that it is longer.
// Invariant 113.
func TestLongerObject(t *testing.T) {
	data := newSource(t)
	file := objectFiles(t, data)[0]
	f := testenv.Must(os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0))(t)
	_, err := f.WriteString("appended")
	testenv.OK(t, errors.Join(err, f.Close()))

	found := checkAll(t, data)
	if found.Found != 1 || found.Findings[0].Kind != DamagedObject || !strings.Contains(found.Findings[0].Text, "its blobs can be read; cut it to 2097152 bytes") {
		t.Errorf("a check: %+v", found.Findings)
	}
	if made := backedUp(t, data, newRepository()); len(made.Damaged) > 0 {
		t.Errorf("a backup lacks %q", made.Damaged)
	}
	copied := filepath.Join(testenv.MemoryDir(t), "copy")
	testenv.OK(t, os.CopyFS(copied, os.DirFS(data)))
	_, _, err = Recover(t.Context(), Location{Data: copied}, RecoverOptions{})
	testenv.Is(t, err, ErrNotSetBack, "a recovery")
	s := testenv.Must(storage.Open(t.Context(), Location{Data: copied}, storage.Options{}))(t)
	testenv.OK(t, s.History.Err())
	checkSource(t, s.Meta, s.Bytes)
	blobs := blob.New(s.Meta, s.Bytes, s.BlobOptions())
	testenv.Must(blobs.CompareObjects(t.Context()))(t)
	damage := testenv.Must(s.Meta.Damages(t.Context(), metastore.ExtentID{}, 10))(t)
	testenv.Equal(t, len(damage), 0, "damage that the server has recorded")
	testenv.OK(t, s.Close())
	testenv.OK(t, os.Truncate(file, 2<<20))
	testenv.Equal(t, checkAll(t, data).Found, 0, "findings once it is cut")
}
