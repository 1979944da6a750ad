package metatest

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/metastore"
)

var openBlobChecks = []dbtest.Check{
	check("blobs/open", openBlob),
	check("blobs/open-races", openBlobRaces),
}

// openBlob opens blobs of every shape several times, between changes of every kind.
func openBlob(p *probe) {
	inline := p.Inline(0, 0, []byte("inline"))
	object := p.Extent(0, 0, metastore.MaxExtentSize)
	cases := map[string][]metastore.Extent{
		"empty":  nil,
		"inline": {inline},
		"object": {object, p.Extent(0, metastore.MaxExtentSize, 1)},
	}
	for name, extents := range cases {
		b := metastore.Blob{Account: "a", Name: name, Content: p.Content(), SHA256: []byte{1}, ContentType: "text/plain"}
		for i := range extents {
			b.Size += extents[i].Size
		}
		for range 2 {
			_, _, err := p.Store.OpenBlob(p.Ctx, "a", name)
			p.Is(err, database.ErrNotFound, "opening %s before its commit", name)
		}
		_, err := p.Store.CommitBlob(p.Ctx, b, extents, nil)
		p.OK(err, "commit of %s", name)
		for range 3 {
			p.opens("a", name)
		}
	}
	dbtest.Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: "inline", Content: p.Content(), Size: 1}, []metastore.Extent{p.Inline(0, 0, []byte("x"))}, nil))
	p.opens("a", "inline")
	p.remove("a", "inline")
	_, _, err := p.Store.OpenBlob(p.Ctx, "a", "inline")
	p.Is(err, database.ErrNotFound, "opening a deleted blob")

	expires := p.Clock.Now().Add(metastore.ExpiredBlobGrace)
	dbtest.Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: "expires", Content: p.Content(), Expires: expires}, nil, nil))
	p.opens("a", "expires")
	p.Clock.Advance(metastore.ExpiredBlobGrace)
	_, _, err = p.Store.OpenBlob(p.Ctx, "a", "expires")
	p.Is(err, database.ErrExpired, "opening an expired blob")
	p.Clock.Advance(metastore.ExpiredBlobGrace)
	_, _, err = p.Store.OpenBlob(p.Ctx, "a", "expires")
	p.Is(err, database.ErrNotFound, "opening a blob that expired long ago")

	p.Begin("upload", "a", "inline")
	p.part("upload", 0, dbtest.MiB)
	p.part("upload", 1, 1)
	p.Complete("upload")
	p.opens("a", "inline")
}

// opens checks that OpenBlob returns the results of Blob and Extents.
func (p *probe) opens(account, name string) {
	want, err := p.Store.Blob(p.Ctx, account, name)
	p.OK(err, "blob %s", name)
	first, err := p.Store.Extents(p.Ctx, want.Content, metastore.Position{}, 1)
	p.OK(err, "extents of %s", name)
	b, extents, err := p.Store.OpenBlob(p.Ctx, account, name)
	p.OK(err, "open of %s", name)
	p.Equal(b, want, "blob %s as opened", name)
	p.Must(len(extents) == len(first), "open of %s returned %d extents, want %d", name, len(extents), len(first))
	if len(first) == 1 {
		p.Equal(extents[0], first[0], "first extent of %s", name)
	}
}

// openBlobRaces opens a blob while it is replaced and deleted: no call that begins after a write
// was acknowledged returns an earlier version, and none returns an earlier one than a call that
// ended before it began.
func openBlobRaces(p *probe) {
	const versions, readers = 120, 4
	var known atomic.Int64  // the version that the next call must return at least
	var opened atomic.Int64 // how many calls of readers have returned a version
	raise := func(v int64) {
		for {
			old := known.Load()
			if v <= old || known.CompareAndSwap(old, v) {
				return
			}
		}
	}
	done := make(chan struct{})
	failures := make(chan error, readers+1)
	var running sync.WaitGroup
	for range readers {
		running.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				least := known.Load()
				b, extents, err := p.Store.OpenBlob(p.Ctx, "a", "name")
				switch {
				case errors.Is(err, database.ErrNotFound):
					continue // deleted
				case err != nil:
					failures <- err
					return
				case b.Size < least:
					failures <- fmt.Errorf("opened version %d after version %d", b.Size, least)
					return
				case len(extents) != 1 || extents[0].Size != b.Size || extents[0].Body[0] != byte(b.Size):
					failures <- fmt.Errorf("version %d was opened with the extents of another", b.Size)
					return
				}
				raise(b.Size)
				opened.Add(1)
			}
		})
	}
	for v := int64(1); v <= versions && len(failures) == 0; v++ {
		body := make([]byte, v)
		body[0] = byte(v)
		_, err := p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: "name", Content: p.Content(), Size: v}, []metastore.Extent{p.Inline(0, 0, body)}, nil)
		if err == nil {
			raise(v)
		}
		if before := opened.Load(); err == nil && v%40 == 1 { // even a slow machine runs the readers
			for opened.Load() == before && len(failures) == 0 {
				runtime.Gosched()
			}
		}
		if err == nil && v%10 == 0 {
			_, _, err = dbtest.Remove(p.Ctx, p.Store, "a", "name", nil)
			if _, _, gone := p.Store.OpenBlob(p.Ctx, "a", "name"); err == nil && !errors.Is(gone, database.ErrNotFound) {
				err = fmt.Errorf("a deleted blob was opened: %w", gone)
			}
		}
		if err != nil {
			failures <- err
			break
		}
	}
	close(done)
	running.Wait()
	select {
	case err := <-failures:
		p.Fail("%w", err)
	default:
	}
}
