package bytetest

import (
	"context"
	"errors"
	"fmt"

	"sluice/bytestore"
)

func crashChecks() []Check {
	checks := []Check{
		onStore("crash after put", crashAfterPut),
		onStore("crash during put", crashDuringPut),
		onStore("crash after a failed put", crashAfterFailedPut),
		onStore("crash after delete", crashAfterDelete),
		onStore("crash during the first put", crashDuringFirstPut),
	}
	for i := range checks {
		checks[i].NeedsCrash = true
	}
	return checks
}

// crash simulates a power failure and reopens the store.
func (p *probe) crash() {
	p.ok(p.h.Crash(), "crash")
	p.reopen()
}

// crashIn simulates a power failure after a Put has read at bytes, and reopens the store.
func (p *probe) crashIn(name bytestore.Name, data []byte, at int) {
	err := p.s.Put(p.ctx, name, during(data, at, p.h.Crash), int64(len(data)))
	if err == nil {
		p.fail("a Put of %d bytes succeeded despite a power failure after %d bytes", len(data), at)
	}
	p.reopen()
}

func crashAfterPut(p *probe) {
	all := p.fill()
	bodies := map[bytestore.Name][]byte{}
	for _, size := range []int{0, 1, 256<<10 + 1, 1<<20 + 1} {
		name := bytestore.Name(fmt.Sprintf("zzzz-%08d", size)) // greater than fill's
		bodies[name] = content(uint64(size), size)
		all = append(all, bytestore.Object{Name: name, Size: int64(size)})
		p.put(name, bodies[name])
	}
	// Twice, because objects that survived the first crash must be durable, too.
	for range 2 {
		p.crash()
		p.lists("", all...)
		for name, data := range bodies {
			p.holds(name, data)
		}
	}
}

// crashDuringPut crashes at several points while a source is read.
func crashDuringPut(p *probe) {
	durable, before := newName(), content(1, 1000)
	p.put(durable, before)
	for _, size := range []int{0, 1, 1000, 1<<20 + 1} {
		for _, at := range []int{0, size / 2, size} {
			name, data := newName(), content(uint64(size), size)
			p.crashIn(name, data, at)
			p.holds(durable, before)
			p.absentOrWhole(name, data)
			p.delete(name)
		}
	}
}

// absentOrWhole ends the check unless the object is absent or complete, as after a Put that was not
// acknowledged.
func (p *probe) absentOrWhole(name bytestore.Name, data []byte) {
	r, err := p.s.Open(p.ctx, name, 0, 0)
	if errors.Is(err, bytestore.ErrNotFound) {
		return
	}
	p.ok(err, "Open(%s)", name)
	p.ok(r.Close(), "close")
	p.holds(name, data)
}

func crashAfterFailedPut(p *probe) {
	for _, src := range badSources() {
		name, data := newName(), content(1, 5000)
		ctx, cancel := context.WithCancel(p.ctx)
		err := p.s.Put(ctx, name, src.open(data, cancel), src.size(data))
		cancel()
		p.is(err, src.want, "Put of a source that %s", src.name)
		p.crash()
		p.absent(name)
	}
}

// crashAfterDelete checks that a crash after a Delete leaves the object absent or complete.
func crashAfterDelete(p *probe) {
	kept, gone, data := newName(), newName(), content(1, 5000)
	p.put(kept, data)
	p.put(gone, data)
	p.delete(gone)
	p.crash()
	p.absentOrWhole(gone, data)
	p.holds(kept, data)
}

// crashDuringFirstPut crashes before any Put was acknowledged. The store must remain usable.
func crashDuringFirstPut(p *probe) {
	name, data := bytestore.Name("sluice-instance"), content(1, 16)
	p.crashIn(name, data, 8)
	p.absent(name)
	p.put(name, data)
	p.crash()
	p.holds(name, data)
}
