package blob_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/commit"
	"sluice/database/sqlstore"
	"sluice/integrity"
	"sluice/metastore"
	"sluice/test/testenv"
)

// rootOf returns the root of bytes.
func rootOf(body []byte) string {
	var w commit.Writer
	_, _ = w.Write(body) // it returns no error
	return w.Commitment().Root.String()
}

// wantRoot ends the test unless a blob has the root of these bytes.
func (f *fixture) wantRoot(t *testing.T, name string, body []byte) {
	t.Helper()
	b := testenv.Must(f.meta.Blob(t.Context(), "a", name))(t)
	root, known := blob.RootOf(&b)
	testenv.Equal(t, known, true, "whether the root of %s is known", name)
	testenv.Equal(t, root.String(), rootOf(body), "root of %s", name)
}

// compute computes the roots of so many contents.
func (f *fixture) compute(t *testing.T, want int64) {
	t.Helper()
	testenv.Equal(t, testenv.Must(f.ComputeRoots(t.Context()))(t), want, "contents with new roots")
}

// TestRootsAreComputed computes the roots of blobs of many sizes and kinds, once each.
// Invariant 242.
func TestRootsAreComputed(t *testing.T) {
	f := newFixture(t, blob.Options{ExtentSize: 1 << 20})
	f.put(t, "empty", nil)
	b := testenv.Must(f.meta.Blob(t.Context(), "a", "empty"))(t)
	if root, known := blob.RootOf(&b); !known || root.String() != rootOf(nil) {
		t.Errorf("an empty blob has the root %v", root)
	}
	bodies := map[string][]byte{}
	for _, size := range []int{1, 1024, 5000, 40_000, 1 << 20, 1<<20 + 1, 10 << 20, 21<<20 + 5} {
		name := fmt.Sprint(size)
		bodies[name] = randomBytes(uint64(size), size)
		f.put(t, name, bodies[name])
	}
	b = testenv.Must(f.meta.Blob(t.Context(), "a", "1"))(t)
	if _, known := blob.RootOf(&b); known {
		t.Error("a root is known before it was computed")
	}
	f.compute(t, int64(len(bodies)))
	for name, body := range bodies {
		f.wantRoot(t, name, body)
	}
	f.compute(t, 0)

	u := f.beginUneven(t, "parts")
	var parts []metastore.Part
	for i, size := range []int{70_000, 3 << 20, 10} {
		body := randomBytes(uint64(i), size)
		bodies["parts"] = append(bodies["parts"], body...)
		parts = append(parts, f.part(t, u.ID, 2*i, body))
	}
	f.completeNamed(t, u.ID, parts...)
	f.keep(t)
	for _, name := range []string{"5000", "40000"} {
		f.put(t, name, []byte("new"))
	}
	f.compute(t, 3)
	f.wantRoot(t, "parts", bodies["parts"])
	f.wantRoot(t, "5000", []byte("new"))
	list := testenv.Must(f.ListVersions(t.Context(), metastore.VersionQuery{ListQuery: metastore.ListQuery{Account: "a", Limit: 100, Roots: true}}))(t).Versions
	for _, v := range list {
		if v.Name == "5000" && !v.Since.IsZero() && commit.Root(v.Root).String() != rootOf(bodies["5000"]) {
			t.Errorf("a version that is not current has the root %x", v.Root)
		}
	}
}

// TestRootsDespiteDamage damages some blobs: roots are computed of intact ones alone.
// Invariant 242.
func TestRootsDespiteDamage(t *testing.T) {
	f := newFixture(t, blob.Options{InlineSize: -1})
	f.put(t, "damaged", randomBytes(1, 5000))
	f.put(t, "missing", randomBytes(2, 5000))
	objects := map[string]bytestore.Name{}
	for _, name := range []string{"damaged", "missing"} {
		_, extents, err := f.meta.OpenBlob(t.Context(), "a", name)
		testenv.OK(t, err)
		objects[name] = bytestore.Name(extents[0].Object)
	}
	testenv.OK(t, f.bytes.Delete(t.Context(), objects["damaged"], objects["missing"]))
	testenv.OK(t, f.bytes.Put(t.Context(), objects["damaged"], bytes.NewReader(randomBytes(9, 5000)), 5000))
	f.put(t, "intact", randomBytes(3, 5000))
	n, err := f.ComputeRoots(t.Context())
	testenv.Is(t, err, integrity.ErrCorrupt, "damaged contents")
	testenv.Equal(t, n, 1, "contents with new roots")
	f.wantRoot(t, "intact", randomBytes(3, 5000))
	f.compute(t, 0) // the damage is recorded
	totals := testenv.Must(f.meta.TreelessTotals(t.Context()))(t)
	testenv.Equal(t, totals.Contents, 0, "contents that wait")
}

// repeated is a store that keeps no objects: all that it returns have the bytes of a 64 MiB
// pattern.
type repeated struct{ *memory.Store }

func (repeated) Put(_ context.Context, _ bytestore.Name, src io.Reader, _ int64) error {
	_, err := io.Copy(io.Discard, src)
	return err
}

func (repeated) Open(_ context.Context, _ bytestore.Name, off, n int64) (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(pattern{}, off, n)), nil
}

// pattern is an endless reader: each MiB begins with its number within 64 MiB, and then has zeros.
type pattern struct{}

var zeros [1 << 20]byte

func (pattern) ReadAt(p []byte, off int64) (int, error) {
	for n := 0; n < len(p); {
		at := off + int64(n)
		m := copy(p[n:], zeros[at%(1<<20):])
		if at%(1<<20) == 0 {
			p[n] = byte(at>>20) % 64
		}
		n += m
	}
	return len(p), nil
}

// rows is a database that tells which rows of trees it has stored.
type rows struct {
	*sqlstore.Store
	added func(metastore.TreeRow)
}

func (r rows) AddTreeRow(ctx context.Context, content metastore.ContentID, row metastore.TreeRow) error {
	err := r.Store.AddTreeRow(ctx, content, row)
	if err == nil {
		r.added(row)
	}
	return err
}

// TestRootsOfLargeContents computes the tree of a blob with two rows, and is interrupted before it
// is complete: the first row is not computed again. A smaller blob does not wait for the second.
// Invariant 242.
func TestRootsOfLargeContents(t *testing.T) {
	t.Parallel()
	const size = commit.RowSize + 11<<20
	f := newFixture(t, blob.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	added := map[string]int{}
	meta := rows{f.meta, func(r metastore.TreeRow) {
		if added[fmt.Sprint(r.Level, r.Index)]++; r.Index == 1 {
			f.wantRoot(t, "small", []byte("inline"))
			cancel()
		}
	}}
	f.Service = blob.New(meta, repeated{f.bytes}, blob.Options{ExtentSize: 64 << 20})
	whole := io.NewSectionReader(pattern{}, 0, size)
	testenv.Must(f.Put(t.Context(), to("large"), whole, size))(t)
	f.clock.Advance(time.Second)
	f.put(t, "small", []byte("inline"))
	_, err := f.ComputeRoots(ctx)
	testenv.Is(t, err, context.Canceled, "an interrupted run")
	f.compute(t, 1)
	testenv.Equal(t, fmt.Sprint(added), "map[0 0:1 0 1:2 1 0:1]", "rows that were stored")
	testenv.Must(whole.Seek(0, io.SeekStart))(t)
	var w commit.Writer
	testenv.Must(w.ReadFrom(whole))(t)
	b := testenv.Must(f.meta.Blob(t.Context(), "a", "large"))(t)
	root, _ := blob.RootOf(&b)
	testenv.Equal(t, root, w.Commitment().Root, "root of a large blob")
}
