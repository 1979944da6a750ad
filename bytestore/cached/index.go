package cached

import (
	"container/list"

	"sluice/bytestore"
)

// blockID names a block of an object.
type blockID struct {
	key    bytestore.Key
	number int64 // from 0
}

// span is a block up to a length: what a reader needs of it.
type span struct {
	blockID
	length int64 // 1 to blockSize
}

// entry is a cached block. It does not change.
type entry struct {
	span
	tag uint64 // tells its file from others of the same block
}

// diskBlock is the unit in which a file takes room on the disk.
const diskBlock = 4 << 10

// size is how many bytes the file takes.
func (e *entry) size() int64 {
	return (headerSize + e.length + diskBlock - 1) / diskBlock * diskBlock
}

// index knows the cached blocks, at most one entry for each, and which of them
// were used last. The lock is the Store's.
type index struct {
	recent  *list.List // of *entry, the most recently used first
	objects map[bytestore.Key]map[int64]*list.Element
}

func newIndex() *index {
	return &index{recent: list.New(), objects: map[bytestore.Key]map[int64]*list.Element{}}
}

// find gives the entry that covers the span, nil when there is none, and marks
// it as used.
func (x *index) find(want span) *entry {
	at := x.objects[want.key][want.number]
	if at == nil || at.Value.(*entry).length < want.length {
		return nil
	}
	x.recent.MoveToFront(at)
	return at.Value.(*entry)
}

// add takes e in as the most recently used one, and returns the entry that it
// displaces: a shorter one of its block, or e itself where there is one that is
// as long; otherwise nil.
func (x *index) add(e *entry) *entry {
	if x.find(e.span) != nil {
		return e
	}
	var shorter *entry
	if at := x.objects[e.key][e.number]; at != nil {
		shorter = at.Value.(*entry)
		x.remove(shorter)
	}
	if x.objects[e.key] == nil {
		x.objects[e.key] = map[int64]*list.Element{}
	}
	x.objects[e.key][e.number] = x.recent.PushFront(e)
	return shorter
}

// remove takes the entry out; false when it is not in.
func (x *index) remove(e *entry) bool {
	at := x.objects[e.key][e.number]
	if at == nil || at.Value != any(e) {
		return false
	}
	x.recent.Remove(at)
	delete(x.objects[e.key], e.number)
	if len(x.objects[e.key]) == 0 {
		delete(x.objects, e.key)
	}
	return true
}

// removeOldest takes out the entry that was not used for the longest time; nil
// when there is none.
func (x *index) removeOldest() *entry {
	at := x.recent.Back()
	if at == nil {
		return nil
	}
	e := at.Value.(*entry)
	x.remove(e)
	return e
}

// removeAll takes out all entries of an object.
func (x *index) removeAll(key bytestore.Key) []*entry {
	var all []*entry
	for _, at := range x.objects[key] {
		all = append(all, at.Value.(*entry))
	}
	for _, e := range all {
		x.remove(e)
	}
	return all
}
