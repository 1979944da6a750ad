package blob

import (
	"slices"
	"sync"
	"time"

	"sluice/metastore"
)

// pin marks a content as being read. It belongs to one reader.
type pin struct {
	content    metastore.ContentID
	holds      []metastore.ContentID // garbage that may be read by its reader, under the lock of pins
	prev, next *pin                  // the same content's other readers, under the lock of pins

	mu    sync.Mutex
	isCut bool
	onCut func()
}

// setOnCut sets the function that cut calls. If the pin is cut already, setOnCut calls it.
func (p *pin) setOnCut(onCut func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onCut = onCut
	if p.isCut && onCut != nil {
		onCut()
	}
}

// cut ends reading.
func (p *pin) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isCut {
		return
	}
	p.isCut = true
	if p.onCut != nil {
		p.onCut()
	}
}

func (p *pin) wasCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isCut
}

// pins tracks the readers of each content, so that bytes are freed only when they have no readers.
// No lock is held while a reader waits for the database: if a content was claimed for freeing while
// a lookup was in progress that may have found it, the lookup cannot pin it and must be repeated.
type pins struct {
	mu      sync.Mutex
	readers map[metastore.ContentID]*pin      // a list's head
	wanted  map[metastore.ContentID]time.Time // garbage that has readers, with the time at which that was noticed
	lookups lookups
	held    map[metastore.ContentID]map[*pin]struct{}
	claims  []claim // in the order in which they were made
	claimed map[metastore.ContentID]lookup
}

// claim records that a content is being freed. It is kept while a lookup is in progress that may
// find the content.
type claim struct {
	content metastore.ContentID
	before  lookup // lookups that are older than this one may find the content
}

func newPins() *pins {
	return &pins{
		readers: map[metastore.ContentID]*pin{},
		wanted:  map[metastore.ContentID]time.Time{},
		held:    map[metastore.ContentID]map[*pin]struct{}{},
		lookups: lookups{open: map[lookup]struct{}{}},
		claimed: map[metastore.ContentID]lookup{},
	}
}

// begin begins a lookup. The caller must end it with add or abandon.
func (p *pins) begin() lookup {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lookups.begin()
}

// abandon ends a lookup that found nothing.
func (p *pins) abandon(l lookup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(l)
}

// add ends a lookup that found the content of c, and adds the pin. It returns false if the content
// has been claimed since the lookup began: then it is not pinned, and a lookup that begins now does
// not find it.
func (p *pins) add(l lookup, c *pin) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, claimed := p.claimed[c.content]
	p.end(l)
	if claimed {
		return false
	}
	if c.next = p.readers[c.content]; c.next != nil {
		c.next.prev = c
	}
	p.readers[c.content] = c
	return true
}

func (p *pins) end(l lookup) {
	oldest := p.lookups.end(l)
	done := 0
	for ; done < len(p.claims) && p.claims[done].before <= oldest; done++ {
		if made := p.claims[done]; p.claimed[made.content] == made.before {
			delete(p.claimed, made.content)
		}
	}
	p.claims = slices.Delete(p.claims, 0, done)
}

// remove removes a pin. It reports whether the content waits to be freed and this was its last
// reader.
func (p *pins) remove(c *pin) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	released := p.release(c)
	if c.next != nil {
		c.next.prev = c.prev
	}
	switch {
	case c.prev != nil:
		c.prev.next = c.next
		return released
	case c.next != nil:
		p.readers[c.content] = c.next
		return released
	}
	delete(p.readers, c.content)
	_, wanted := p.wanted[c.content]
	delete(p.wanted, c.content)
	return wanted || released
}

// retire is called before an object that a content's present readers may read becomes the garbage
// content retired, which is then not free while one of them is left.
func (p *pins) retire(content, retired metastore.ContentID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := p.readers[content]; c != nil; c = c.next {
		if p.held[retired] == nil {
			p.held[retired] = map[*pin]struct{}{}
		}
		p.held[retired][c] = struct{}{}
		c.holds = append(c.holds, retired)
	}
}

// release ends what a pin holds, and reports whether a content among them waits to be freed and
// has no readers any more.
func (p *pins) release(c *pin) (free bool) {
	for _, id := range c.holds {
		delete(p.held[id], c)
		if len(p.held[id]) > 0 {
			continue
		}
		delete(p.held, id)
		_, wanted := p.wanted[id]
		delete(p.wanted, id)
		free = free || wanted
	}
	c.holds = nil
	return free
}

// claim returns the garbage contents that have no readers, and prevents new pins on them. It marks
// the others as wanted.
func (p *pins) claim(contents []metastore.ContentID, now time.Time) []metastore.ContentID {
	p.mu.Lock()
	defer p.mu.Unlock()
	var free []metastore.ContentID
	for _, id := range contents {
		if p.readers[id] != nil || len(p.held[id]) > 0 {
			if _, known := p.wanted[id]; !known {
				p.wanted[id] = now
			}
			continue
		}
		free = append(free, id)
		if len(p.lookups.open) > 0 {
			p.claims = append(p.claims, claim{id, p.lookups.next})
			p.claimed[id] = p.lookups.next
		}
	}
	return free
}

// overdue returns the readers that hold contents which have been wanted since the given time or
// longer, or all wanted contents if the time is zero.
func (p *pins) overdue(since time.Time) []*pin {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []*pin
	for id, wanted := range p.wanted {
		if !since.IsZero() && wanted.After(since) {
			continue
		}
		for c := p.readers[id]; c != nil; c = c.next {
			list = append(list, c)
		}
	}
	return list
}

// waiting reports whether any content waits for its readers.
func (p *pins) waiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.wanted) > 0
}

// lookup is a lookup's sequence number.
type lookup uint64

// lookups are the lookups in progress.
type lookups struct {
	open         map[lookup]struct{}
	oldest, next lookup // the open ones are in [oldest, next)
}

func (l *lookups) begin() lookup {
	n := l.next
	l.open[n] = struct{}{}
	l.next++
	return n
}

// end ends a lookup and returns the oldest one that is open, or next if there is none.
func (l *lookups) end(n lookup) lookup {
	delete(l.open, n)
	for l.oldest < l.next {
		if _, open := l.open[l.oldest]; open {
			break
		}
		l.oldest++
	}
	return l.oldest
}
