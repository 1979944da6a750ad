package bytetest

import (
	"context"
	"errors"
	"io"

	"sluice/bytestore"
)

var deleteChecks = []Check{
	onStore("delete", deleteOnce),
	onStore("delete a missing object", deleteMissing),
	onStore("delete many", deleteMany),
	onStore("delete some", deleteSome),
	onStore("put after delete", putAfterDelete),
	onStore("delete while reading", deleteWhileReading),
}

func deleteOnce(p *probe) {
	kept := bytestore.Object{Name: newName(), Size: 5}
	gone := newName()
	p.put(kept.Name, content(1, 5))
	p.put(gone, content(2, 1000))
	for range 2 {
		p.delete(gone)
		p.absent(gone, kept)
	}
	p.reopen()
	p.absent(gone, kept)
	p.holds(kept.Name, content(1, 5))
}

func deleteMissing(p *probe) {
	for _, name := range []bytestore.Name{newName(), "sluice-instance", "abc"} {
		p.delete(name)
	}
	p.lists("")
}

// deleteMany deletes no object, one object, and more objects than one request can name, and most do
// not exist, and some are named twice.
func deleteMany(p *probe) {
	p.ok(p.s.Delete(p.ctx), "delete of nothing")
	kept := bytestore.Object{Name: newName(), Size: 5}
	p.put(kept.Name, content(1, 5))
	for _, n := range []int{2, 2100} {
		names := make([]bytestore.Name, n)
		for i := range names {
			names[i] = newName()
			if i%150 == 0 || i == n-1 {
				p.put(names[i], content(2, 10))
			}
		}
		p.ok(p.s.Delete(p.ctx, append(names, names[0], names[n-1])...), "delete of %d", n)
		p.absent(names[n-1], kept)
	}
	p.reopen()
	p.lists("", kept)
}

// deleteSome deletes objects together with some that cannot be deleted.
func deleteSome(p *probe) {
	names := []bytestore.Name{newName(), "", newName(), "../x", newName()}
	for _, name := range names {
		if name.Valid() {
			p.put(name, content(1, 5))
		}
	}
	err := p.s.Delete(p.ctx, names...)
	var left bytestore.Undeleted
	if !errors.As(err, &left) || len(left) != 2 {
		p.fail("Delete(%q) = %w, want an Undeleted of the two invalid names", names, err)
	}
	for _, name := range []bytestore.Name{names[1], names[3]} {
		p.is(left[name], bytestore.ErrInvalidName, "Delete(%q)", name)
	}
	p.lists("")
	ended, cancel := context.WithCancel(p.ctx)
	cancel()
	p.put(names[0], content(1, 5))
	err = p.s.Delete(ended, names[0], names[2])
	p.is(err, context.Canceled, "Delete with a context that has ended")
	if !errors.As(err, &left) || len(left) != 2 {
		p.fail("deleting with a context that has ended = %w, want an Undeleted of both", err)
	}
	p.holds(names[0], content(1, 5))
}

func putAfterDelete(p *probe) {
	for _, name := range []bytestore.Name{newName(), "sluice-instance"} {
		second := content(2, 700)
		p.put(name, content(1, 1000))
		p.delete(name)
		p.put(name, second)
		p.holds(name, second)
		p.reopen()
		p.holds(name, second)
	}
}

// deleteWhileReading continues to read after a Delete: the bytes must be correct, or the reader
// must fail.
func deleteWhileReading(p *probe) {
	for _, size := range []int{2, 5000, 4 << 20} {
		name, data := newName(), content(uint64(size), size)
		p.put(name, data)
		r := p.open(name, 0, int64(size))
		got := make([]byte, size)
		_, err := io.ReadFull(r, got[:size/2])
		p.ok(err, "read")
		p.delete(name)
		p.put(newName(), content(9, size)) // it reuses the space if that was freed too early
		n, err := io.ReadFull(r, got[size/2:])
		n += size / 2
		p.same(got[:n], data[:n], "read while deleting")
		if closeErr := r.Close(); err == nil {
			p.ok(closeErr, "close")
		}
		p.opens(name, 0, 0, bytestore.ErrNotFound)
	}
}
