package metatest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"sluice/database/dbtest"
	"sluice/metastore"
)

// Bench measures a store.
func Bench(b *testing.B, newHarness func(testing.TB) *dbtest.Harness) {
	at := func(callers []int, name string, setUp func(*bench) func(i int) error) {
		dbtest.Measure(b, newHarness, name, callers, func(p *dbtest.Bench) func(int) error { return setUp(&bench{Bench: p}) })
	}
	one, many := []int{1}, []int{1, 64}
	at(many, "commit-4KiB-inline", func(p *bench) func(int) error { return commitInline(p, "") })
	at(many, "commit-4KiB-owned", func(p *bench) func(int) error { return commitInline(p, "owner") })
	at(many, "blob-lookup", blobLookup)
	at(one, "list-1000-names", listNames)
	at(one, "list-groups", listGroups)
	at(one, "complete-10000-parts", completeParts)
	at(one, "drop-1000-extents", dropExtents)
	at(one, "unreferenced-1000-keys", unreferencedKeys)
}

// bench is a running benchmark.
type bench struct {
	*dbtest.Bench
	objects atomic.Int64 // how many have a name
}

func (b *bench) Extent(part int, off, size int64) metastore.Extent {
	n := b.objects.Add(1)
	return metastore.Extent{
		Part: part, Offset: off, Size: size, Blocks: make([]uint32, (size+dbtest.MiB-1)/dbtest.MiB),
		Object: fmt.Sprintf("%02x-%044x", byte(n*167), n), Created: b.Clock.Now(),
	}
}

func (b *bench) commit(name string, extents ...metastore.Extent) (metastore.Blob, error) {
	return b.commitFor("", name, extents...)
}

func (b *bench) commitFor(owner, name string, extents ...metastore.Extent) (metastore.Blob, error) {
	blob := metastore.Blob{Account: "account", Name: name, Content: metastore.NewContentID(time.Now()), ContentType: "text/plain", Owner: owner}
	for _, e := range extents {
		blob.Size += e.Size
	}
	return b.Store.CommitBlob(b.Ctx, blob, extents, nil)
}

func commitInline(b *bench, owner string) func(int) error {
	body := make([]byte, 4096)
	return func(i int) error {
		_, err := b.commitFor(owner, fmt.Sprintf("folder/%08x", uint32(i)*2654435761),
			metastore.Extent{Size: int64(len(body)), Blocks: []uint32{1}, Body: body})
		return err
	}
}

const lookedUp = 100_000

func numbered(i int) string { return fmt.Sprintf("folder/name-%07d", i) }

func (b *bench) fillNames() {
	b.Fill(lookedUp, func(i int) error { return dbtest.Error(b.commit(numbered(i), b.Extent(0, 0, 100))) })
}

func blobLookup(b *bench) func(int) error {
	b.fillNames()
	return func(i int) error { return dbtest.Error(b.Store.Blob(b.Ctx, "account", numbered(i*7919%lookedUp))) }
}

func listNames(b *bench) func(int) error {
	b.fillNames()
	return func(i int) error {
		page, err := b.Store.ListBlobs(b.Ctx, metastore.ListQuery{Account: "account", After: numbered(i * 7919 % (lookedUp - 1001)), Limit: 1000})
		if err == nil && len(page.Blobs) != 1000 {
			err = fmt.Errorf("%d names on the page", len(page.Blobs))
		}
		return err
	}
}

// listGroups lists ten groups. One of them holds nearly all names.
func listGroups(b *bench) func(int) error {
	b.fillNames()
	b.Fill(9, func(i int) error { return dbtest.Error(b.commit(fmt.Sprintf("%d/name", i))) })
	return func(int) error {
		page, err := b.Store.ListBlobs(b.Ctx, metastore.ListQuery{Account: "account", Delimiter: "/", Limit: 1000})
		if err == nil && len(page.Prefixes) != 10 {
			err = fmt.Errorf("%d groups on the page", len(page.Prefixes))
		}
		return err
	}
}

// putParts stores an upload of 10,000 parts, and sends a fifth of them twice.
func (b *bench) putParts(id string) metastore.Upload {
	const parts = 10_000
	_, err := b.Store.BeginUpload(b.Ctx, metastore.Upload{ID: id, Account: "account", Name: "big", Content: metastore.NewContentID(time.Now()), PartSize: dbtest.MiB})
	if err != nil {
		b.Fatal(err)
	}
	b.Fill(parts+parts/5, func(i int) error {
		return b.Store.PutPart(b.Ctx, id, metastore.Part{Index: i % parts, Size: dbtest.MiB}, []metastore.Extent{b.Extent(i%parts, 0, dbtest.MiB)})
	})
	u, err := b.Store.Upload(b.Ctx, id)
	if err != nil {
		b.Fatal(err)
	}
	return u
}

func completeParts(b *bench) func(int) error {
	return func(i int) error {
		u := b.putParts(fmt.Sprint("upload", i))
		return b.Timed("µs/complete", func() error { return dbtest.Error(b.Store.CompleteUpload(b.Ctx, u.ID, u.Revision, u.Bytes, 1, nil)) })
	}
}

func dropExtents(b *bench) func(int) error {
	return func(int) error {
		var extents []metastore.Extent
		for k := range int64(1000) {
			extents = append(extents, b.Extent(0, k*dbtest.MiB, dbtest.MiB))
		}
		blob, err := b.commit("name", extents...)
		if err == nil {
			_, _, err = b.Store.DeleteBlob(b.Ctx, "account", "name", nil)
		}
		return errors.Join(err, b.Timed("µs/drop", func() error {
			return b.Store.DropExtents(b.Ctx, blob.Content, positions(extents))
		}))
	}
}

func unreferencedKeys(b *bench) func(int) error {
	b.fillNames()
	return func(i int) error {
		keys := make([]string, 1000)
		for k := range keys {
			n := (i*1000 + k) * 7919 % (2 * lookedUp)
			keys[k] = fmt.Sprintf("%02x-%044x", byte(n*167), n)
		}
		_, err := b.Store.Unreferenced(b.Ctx, keys)
		return err
	}
}
