package integrity

import (
	"sync"

	"sluice/metastore"
)

// maxDamaged bounds the contents in damagedContents: 2 MiB of memory.
const maxDamaged = 50_000

// damagedContents are the contents that may have recorded damage, so that reads of all other
// contents need no query. It knows too many rather than too few, except contents that another node
// has recorded since the last refresh. Its methods may be called concurrently.
type damagedContents struct {
	mu    sync.Mutex
	ids   map[metastore.ContentID]struct{}
	every bool                  // there are too many: every content may have damage
	added []metastore.ContentID // since a refresh began
}

func newDamagedContents() *damagedContents {
	return &damagedContents{ids: map[metastore.ContentID]struct{}{}}
}

// may reports whether a content may have recorded damage.
func (d *damagedContents) may(id metastore.ContentID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, known := d.ids[id]
	return known || d.every
}

// add adds a content for which damage was recorded.
func (d *damagedContents) add(id metastore.ContentID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.insert(id)
	d.added = append(d.added, id)
}

func (d *damagedContents) insert(id metastore.ContentID) {
	if d.ids[id] = struct{}{}; len(d.ids) > maxDamaged {
		d.every = true
		clear(d.ids)
	}
}

// remove removes a content that has none.
func (d *damagedContents) remove(id metastore.ContentID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.ids, id)
}

// beginRefresh must be called before the damage is queried that replace gets.
func (d *damagedContents) beginRefresh() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.added = nil
}

// replace replaces the contents by those that were queried, and those added meanwhile. It reports
// whether there are some that were not known before.
func (d *damagedContents) replace(ids []metastore.ContentID) (more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		_, known := d.ids[id]
		more = more || !known && !d.every
	}
	d.ids, d.every = make(map[metastore.ContentID]struct{}, len(ids)), false
	for _, id := range append(ids, d.added...) {
		d.insert(id)
	}
	d.added = nil
	return more
}
