package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"sync/atomic"

	"sluice/bytestore"
	"sluice/metastore"
)

// copyObjects copies the objects that the metadata of the source refers to and
// that the target has not yet, and tells how many there are in all. No object is
// stored that is not what its checksums say; those are complained of, one by
// one, and are an error at the end.
func (m *migration) copyObjects(ctx context.Context) (objects, bytes int64, err error) {
	objects, bytes, err = m.from.sql.CountObjects(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("the source: %w", err)
	}
	m.progress.begin("bytes", bytes, "bytes")
	damaged, err := m.copyMissing(ctx)
	if err == nil && damaged > 0 {
		err = fmt.Errorf("objects of the source that are damaged or missing: %d; delete their blobs, or write them anew, and run the same command again", damaged)
	}
	if err == nil {
		m.progress.end()
	}
	return objects, bytes, err
}

// copiers is how many objects are copied at once.
const copiers = 8

// copyMissing tells how many objects could not be copied for being damaged.
func (m *migration) copyMissing(ctx context.Context) (damaged int64, err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var (
		workers sync.WaitGroup
		work    = make(chan metastore.Extent)
		bad     atomic.Int64
	)
	for range copiers {
		workers.Go(func() {
			for e := range work {
				switch err := m.copyObject(ctx, e); {
				case errors.Is(err, errDamaged):
					bad.Add(1)
					m.progress.line(m.complain, fmt.Sprintf("object %s: %v", e.Key, err))
				case err != nil:
					fail(fmt.Errorf("copying the object %s: %w", e.Key, err))
				default:
					m.progress.add(e.Size)
				}
			}
		})
	}
	err = m.eachMissing(ctx, func(e metastore.Extent) error {
		select {
		case work <- e:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	close(work)
	workers.Wait()
	if cause := context.Cause(ctx); cause != nil {
		err = cause // what failed first
	}
	return bad.Load(), err
}

// eachMissing calls fn for each object of the source that the target has not.
// Both are gone through by key, side by side. An object of another size is none
// of ours: what stored it was cut without noticing.
func (m *migration) eachMissing(ctx context.Context, fn func(metastore.Extent) error) error {
	source := objects{side: m.from}
	if err := source.next(ctx); err != nil {
		return err
	}
	behind := func(key bytestore.Key) error {
		for !source.end && (key == "" || source.at.Key < string(key)) {
			if err := fn(source.at); err != nil {
				return err
			}
			if err := source.next(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	err := m.to.bytes.List(ctx, "", func(o bytestore.Object) error {
		if err := behind(o.Key); err != nil || source.end || source.at.Key != string(o.Key) {
			return err
		}
		if o.Size != source.at.Size {
			return m.to.bytes.Delete(ctx, o.Key) // and the next of them will be behind it
		}
		m.progress.add(o.Size)
		return source.next(ctx)
	})
	if err != nil {
		return err
	}
	return behind("")
}

// objects goes through the objects that a side's metadata refers to.
type objects struct {
	side *side
	page []metastore.Extent
	at   metastore.Extent // where it stands
	end  bool             // it stands behind the last one
}

func (o *objects) next(ctx context.Context) error {
	if len(o.page) == 0 {
		const page = 1000
		var err error
		if o.page, err = o.side.sql.Objects(ctx, o.at.Key, page); err != nil {
			return fmt.Errorf("the source: %w", err)
		}
		if len(o.page) == 0 {
			o.end = true
			return nil
		}
	}
	o.at, o.page = o.page[0], o.page[1:]
	return nil
}

// errDamaged: an object of the source is not what its metadata says.
var errDamaged = errors.New("damaged")

func (m *migration) copyObject(ctx context.Context, e metastore.Extent) error {
	r, err := m.from.bytes.Open(ctx, bytestore.Key(e.Key), 0, e.Size)
	if errors.Is(err, bytestore.ErrNotFound) || errors.Is(err, bytestore.ErrTruncated) {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	if err != nil {
		return err
	}
	err = m.to.bytes.Put(ctx, bytestore.Key(e.Key), &checked{src: r, left: e.Size, blocks: e.Blocks}, e.Size)
	return errors.Join(err, r.Close())
}

// blockSize is what each checksum of an extent is about.
const blockSize = 1 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checked gives the bytes of an extent. It fails with errDamaged at the end of
// the first block that does not match its checksum.
type checked struct {
	src    io.Reader
	left   int64    // bytes up to the end of the extent
	blocks []uint32 // the checksums of the blocks at hand and behind it
	done   int64    // bytes of the block at hand
	sum    uint32   // of them
}

// Read implements io.Reader.
func (c *checked) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), c.left, blockSize-c.done)]
	n, err := c.src.Read(p)
	c.sum = crc32.Update(c.sum, castagnoli, p[:n])
	c.left, c.done = c.left-int64(n), c.done+int64(n)
	if c.left == 0 || c.done == blockSize {
		if len(c.blocks) == 0 || c.blocks[0] != c.sum {
			return 0, fmt.Errorf("%w: the block that ends %d bytes before the end does not match its checksum", errDamaged, c.left)
		}
		c.blocks, c.done, c.sum = c.blocks[1:], 0, 0
	}
	if errors.Is(err, io.EOF) {
		if c.left > 0 {
			return n, fmt.Errorf("%w: it ends %d bytes too early", errDamaged, c.left)
		}
		err = nil // told by the next Read
	}
	return n, err
}
