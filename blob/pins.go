package blob

import (
	"slices"
	"sync"
	"time"

	"sluice/metastore"
)

// pins know the readers of each content, so that bytes are freed only when
// nobody reads them. Nothing is locked while a reader waits for the database: a
// lookup that may still find what was claimed for freeing in the meantime is
// refused when it pins what it found, and must look again.
type pins struct {
	mu      sync.Mutex
	readers map[metastore.ContentID]*Content  // the first of a list
	wanted  map[metastore.ContentID]time.Time // garbage that has readers, and since when it is known to be
	lookups lookups
	claims  []claim // in the order in which they were made
	claimed map[metastore.ContentID]lookup
}

// claim says that a content is being freed. It is kept for as long as a lookup
// is under way that may find the content.
type claim struct {
	content metastore.ContentID
	before  lookup // the lookups that are older than this one may find it
}

func newPins() *pins {
	return &pins{
		readers: map[metastore.ContentID]*Content{},
		wanted:  map[metastore.ContentID]time.Time{},
		lookups: lookups{open: map[lookup]struct{}{}},
		claimed: map[metastore.ContentID]lookup{},
	}
}

// look begins a lookup, which ends by pin or by giveUp.
func (p *pins) look() lookup {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lookups.begin()
}

// giveUp ends a lookup that found nothing.
func (p *pins) giveUp(l lookup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(l)
}

// pin ends a lookup that found c, and pins it. It reports false when the content
// has been claimed since the lookup began: then it is not pinned, and no lookup
// that begins now finds it.
func (p *pins) pin(l lookup, c *Content) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, claimed := p.claimed[c.Content]
	p.end(l)
	if claimed {
		return false
	}
	if c.next = p.readers[c.Content]; c.next != nil {
		c.next.prev = c
	}
	p.readers[c.Content] = c
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

// remove takes a pin away. It reports whether the content waits to be freed and
// this was its last reader.
func (p *pins) remove(c *Content) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.next != nil {
		c.next.prev = c.prev
	}
	switch {
	case c.prev != nil:
		c.prev.next = c.next
		return false
	case c.next != nil:
		p.readers[c.Content] = c.next
		return false
	}
	delete(p.readers, c.Content)
	_, wanted := p.wanted[c.Content]
	delete(p.wanted, c.Content)
	return wanted
}

// claim returns those of the garbage contents that nobody reads, and that nobody
// can pin from now on. The others are wanted.
func (p *pins) claim(contents []metastore.ContentID, now time.Time) []metastore.ContentID {
	p.mu.Lock()
	defer p.mu.Unlock()
	var free []metastore.ContentID
	for _, id := range contents {
		if p.readers[id] != nil {
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

// overdue returns the readers of the wanted contents, of those that have been
// wanted since a time or longer; of all of them when that time is zero.
func (p *pins) overdue(since time.Time) []*Content {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []*Content
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

// waited reports whether any content with readers is wanted.
func (p *pins) waited() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.wanted) > 0
}

// lookup is the number of a lookup; a later one has a greater number.
type lookup uint64

// lookups are those under way.
type lookups struct {
	open         map[lookup]struct{}
	oldest, next lookup // all that are open lie in [oldest, next)
}

func (l *lookups) begin() lookup {
	n := l.next
	l.open[n] = struct{}{}
	l.next++
	return n
}

// end ends a lookup and returns the oldest that is open, next when none is.
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
