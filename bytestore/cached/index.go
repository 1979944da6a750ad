package cached

import (
	"container/list"

	"sluice/bytestore"
)

// index holds the cached blocks, at most one entry for each, in order of their last use. The
// Store's lock guards it.
type index struct {
	recent  *list.List // of *entry, the most recently used first
	objects map[bytestore.Name]map[int64]*list.Element
}

func newIndex() *index {
	return &index{recent: list.New(), objects: map[bytestore.Name]map[int64]*list.Element{}}
}

// find returns the entry that covers the span and marks it as used. It returns nil if there is
// none.
func (x *index) find(want span) *entry {
	at := x.objects[want.object][want.number]
	if at == nil || at.Value.(*entry).length < want.length {
		return nil
	}
	x.recent.MoveToFront(at)
	return at.Value.(*entry)
}

// add adds e as the most recently used entry. It returns the entry that must be discarded: a
// shorter one for the same block, or e itself if there is one that is not shorter, or nil.
func (x *index) add(e *entry) *entry {
	if x.find(e.span) != nil {
		return e
	}
	var shorter *entry
	if at := x.objects[e.object][e.number]; at != nil {
		shorter = at.Value.(*entry)
		x.remove(shorter)
	}
	if x.objects[e.object] == nil {
		x.objects[e.object] = map[int64]*list.Element{}
	}
	x.objects[e.object][e.number] = x.recent.PushFront(e)
	return shorter
}

// remove removes an entry. It returns false if the index does not hold it.
func (x *index) remove(e *entry) bool {
	at := x.objects[e.object][e.number]
	if at == nil || at.Value != any(e) {
		return false
	}
	x.recent.Remove(at)
	delete(x.objects[e.object], e.number)
	if len(x.objects[e.object]) == 0 {
		delete(x.objects, e.object)
	}
	return true
}

// removeOldest removes the least recently used entry. It returns nil if there is none.
func (x *index) removeOldest() *entry {
	at := x.recent.Back()
	if at == nil {
		return nil
	}
	e := at.Value.(*entry)
	x.remove(e)
	return e
}

// removeAll removes and returns all of an object's entries.
func (x *index) removeAll(name bytestore.Name) []*entry {
	var all []*entry
	for _, at := range x.objects[name] {
		all = append(all, at.Value.(*entry))
	}
	for _, e := range all {
		x.remove(e)
	}
	return all
}
