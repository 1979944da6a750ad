package meta

import (
	"sync"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"sluice/database/sqlstore/internal/engine"
)

// BlobCache holds rows of blobs, each with its first extent, so that a read of a blob that is read
// often needs no query. It requires that no other process changes blobs. A nil cache holds nothing.
//
// # Exactness
//
// A row in the cache is the last committed one of its name. The writer brackets every COMMIT that
// changes blobs: begin removes their rows before the COMMIT, and end is called after it has
// returned and before any caller is answered. Between the two the names are changing, and no row of
// them is inserted. A query for a row is bracketed too, by a rowFill: its result is inserted only
// if the name was not changing at any moment from before the query began until then.
//
// So when a row is inserted, no COMMIT for its name has run since before it was read: it is the
// committed row. It stays that until the next begin, which removes it before the next COMMIT. A
// lookup that finds it takes effect at that moment, before that COMMIT. A lookup that does not find
// it is a query, which sees all committed rows. In particular, no lookup that begins after a write
// was acknowledged returns an earlier row.
//
// If a COMMIT's outcome is unknown, the cache is emptied and remains empty: only SQLite knows the
// rows until the database is opened again.
type BlobCache struct {
	rows *otter.Cache[engine.RowKey, *blobRow]

	hits, misses, evictions atomic.Int64

	mu       sync.Mutex
	fills    map[engine.RowKey]*rowFill
	changing map[engine.RowKey]struct{} // by the COMMIT that is running
	stopped  bool
}

// rowFill stands for the queries for one row that run now.
type rowFill struct {
	queries int
	stale   bool // the row may have changed since one of them began
}

const (
	// rowOverhead is a cached row's memory without its variable parts, in bytes: the row, its key
	// and its place in the cache.
	rowOverhead = 470
	// extentOverhead is the same for an extent.
	extentOverhead = 128
)

// weight returns about how many bytes of memory a row takes in the cache.
func weight(k engine.RowKey, r *blobRow) uint32 {
	size, variable := rowOverhead, len(k[0])+len(k[1])+len(k[2])
	variable += len(r.blob.SHA256) + len(r.blob.ContentType) + len(r.blob.Metadata) + len(r.blob.Owner) + len(r.blob.By)
	for i := range r.first {
		size += extentOverhead
		variable += len(r.first[i].Body) + len(r.first[i].Object) + 4*len(r.first[i].Blocks)
	}
	return uint32(size + variable + variable/16) // the allocator rounds up, by an eighth at most
}

// NewBlobCache returns a cache of at most size bytes, or nil if size is 0.
func NewBlobCache(size int64) *BlobCache {
	if size <= 0 {
		return nil
	}
	c := &BlobCache{fills: map[engine.RowKey]*rowFill{}, changing: map[engine.RowKey]struct{}{}}
	c.rows = otter.Must(&otter.Options[engine.RowKey, *blobRow]{
		MaximumWeight: uint64(size),
		OnAtomicDeletion: func(e otter.DeletionEvent[engine.RowKey, *blobRow]) {
			if e.WasEvicted() {
				c.evictions.Add(1)
			}
		},
		Weigher: weight,
	})
	return c
}

// get returns the row of k. If it is not in the cache, query reads it, and the result is inserted
// if there is such a blob and the result is exact.
func (c *BlobCache) get(k engine.RowKey, query func() (*blobRow, error)) (*blobRow, error) {
	if c == nil {
		return query()
	}
	if row, ok := c.rows.GetIfPresent(k); ok {
		c.hits.Add(1)
		return row, nil
	}
	c.misses.Add(1)
	f := c.beginFill(k)
	var row *blobRow
	var err error
	defer func() { c.endFill(k, f, row, err) }()
	row, err = query()
	return row, err
}

func (c *BlobCache) beginFill(k engine.RowKey) *rowFill {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.fills[k]
	if f == nil {
		f = &rowFill{}
		c.fills[k] = f
	}
	f.queries++
	_, changing := c.changing[k]
	_, all := c.changing[engine.EveryRow]
	if changing || all || c.stopped {
		f.stale = true
	}
	return f
}

// endFill inserts a query's result, unless the row may have changed.
func (c *BlobCache) endFill(k engine.RowKey, f *rowFill, row *blobRow, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && row != nil && row.found && !f.stale { // row is nil after a panic
		c.rows.Set(cloned(k), row)
	}
	if f.queries--; f.queries == 0 && c.fills[k] == f {
		delete(c.fills, k)
	}
}

// BeginCommit must be called before a COMMIT that changes the rows of keys, and EndCommit after it.
func (c *BlobCache) BeginCommit(keys []engine.RowKey) {
	if c == nil || len(keys) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range keys {
		c.changing[k] = struct{}{}
		if k == engine.EveryRow {
			c.forgetAll()
			continue
		}
		c.rows.Invalidate(k)
		if f := c.fills[k]; f != nil {
			f.stale = true
			delete(c.fills, k) // a query that begins after the COMMIT has a fill of its own
		}
	}
}

// EndCommit ends the changes of keys. known reports whether the COMMIT's outcome is known.
func (c *BlobCache) EndCommit(keys []engine.RowKey, known bool) {
	if c == nil || len(keys) == 0 && known {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range keys {
		delete(c.changing, k)
		if k == engine.EveryRow {
			clear(c.fills) // these are stale
		}
		delete(c.fills, k)
	}
	if !known {
		c.stopped = true
		c.forgetAll()
	}
}

// forgetAll empties the cache, and makes the queries that run now stale.
func (c *BlobCache) forgetAll() {
	for _, f := range c.fills {
		f.stale = true
	}
	clear(c.fills)
	c.rows.InvalidateAll()
}

// Stats returns the figures, which are zero without a cache.
func (c *BlobCache) Stats() BlobCacheStats {
	if c == nil {
		return BlobCacheStats{}
	}
	c.rows.CleanUp() // rows that were cached and evicted lately are counted, too
	return BlobCacheStats{
		Hits: c.hits.Load(), Misses: c.misses.Load(), Evictions: c.evictions.Load(),
		Bytes: int64(c.rows.WeightedSize()),
	}
}

// BlobCacheStats are the blob cache's figures.
type BlobCacheStats struct {
	Hits, Misses, Evictions int64
	Bytes                   int64 // approximate
}
