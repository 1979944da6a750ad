package blob

import (
	"sync"

	"sluice/metastore"
)

// pins counts the readers of each content, so that bytes are freed only when
// nobody reads them.
type pins struct {
	// resolving is held shared from before a reader looks a blob up until it
	// has pinned what it found. Whoever has held it exclusively after a content
	// became garbage knows that no further reader of it will come.
	resolving sync.RWMutex

	mu struct {
		sync.Mutex
		readers map[metastore.ContentID]int
		wanted  map[metastore.ContentID]bool // to be freed when the last reader ends
	}
}

func newPins() *pins {
	p := &pins{}
	p.mu.readers = make(map[metastore.ContentID]int)
	p.mu.wanted = make(map[metastore.ContentID]bool)
	return p
}

// add pins a content. The caller holds resolving shared.
func (p *pins) add(id metastore.ContentID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.readers[id]++
}

// remove takes a pin away. It reports whether the content waits to be freed and
// this was its last reader.
func (p *pins) remove(id metastore.ContentID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.readers[id]--; p.mu.readers[id] > 0 {
		return false
	}
	delete(p.mu.readers, id)
	wanted := p.mu.wanted[id]
	delete(p.mu.wanted, id)
	return wanted
}

// unread gives those of the garbage contents that nobody reads or will read.
func (p *pins) unread(ids []metastore.ContentID) []metastore.ContentID {
	p.resolving.Lock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resolving.Unlock()

	var free []metastore.ContentID
	for _, id := range ids {
		if p.mu.readers[id] == 0 {
			free = append(free, id)
		} else {
			p.mu.wanted[id] = true
		}
	}
	return free
}
