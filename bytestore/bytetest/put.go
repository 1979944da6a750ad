package bytetest

import (
	"bytes"
	"errors"
	"io"
	"testing/iotest"

	"sluice/bytestore"
)

// sizes are the sizes around which buffers and blocks end.
var sizes = []int{
	0, 1, 2, 4095, 4096, 4097, 64<<10 - 1, 64 << 10, 64<<10 + 1,
	256<<10 - 1, 256 << 10, 256<<10 + 1, 512<<10 - 1, 512 << 10, 512<<10 + 1,
	1<<20 - 1, 1 << 20, 1<<20 + 1, 2 << 20, 3<<20 + 7,
}

// hostileKeys are not valid names. Some of them would escape from a store's folder.
var hostileKeys = []bytestore.Name{
	"", "a", "ab", ".", "..", "...", "../evil", "a/../../evil", "/evil", "a/b", `a\b`, "a//b", "aa/",
	".put-abc", "abc.tmp", "a_b", "ABC", "Abc", "a b", "abc\n", "abc\x00", "a\x00b", "%2e%2e", "äöü", "a\xffb",
	"ab-000000000000-0123456789abcdef0123456789abcdef/../x",
	bytestore.Name(bytes.Repeat([]byte("a"), 65)), bytestore.Name(bytes.Repeat([]byte("a"), 5000)),
}

var putChecks = []Check{
	onStore("put every size", func(p *probe) { putSizes(p, exact) }),
	onStore("put every size, unknown", func(p *probe) { putSizes(p, unknown) }),
	onStore("put from sources of every manner", putManners),
	onStore("put many names concurrently", putConcurrent),
	onStore("hostile names", hostile),
	onStore("a put is invisible until it is whole", invisible),
}

// raceChecks returns the checks of several Puts of one name.
var raceChecks = []Check{
	onStore("second put of a name", putTwice),
	onStore("put overtaken by another of its name", putOvertaken),
	onStore("racing puts of one name", putRacing),
}

func putSizes(p *probe, declare func([]byte) int64) {
	names := map[int]bytestore.Name{}
	for _, size := range sizes {
		names[size] = newName()
		data := content(uint64(size), size)
		err := p.s.Put(p.ctx, names[size], bytes.NewReader(data), declare(data))
		p.ok(err, "put of %d bytes", size)
		p.holds(names[size], data)
	}
	p.reopen()
	for _, size := range sizes {
		p.holds(names[size], content(uint64(size), size))
	}
}

func putManners(p *probe) {
	manners := map[string]func(io.Reader) io.Reader{
		"one byte a read":        iotest.OneByteReader,
		"half of each buffer":    iotest.HalfReader,
		"the end with the data":  iotest.DataErrReader,
		"empty reads in between": func(r io.Reader) io.Reader { return &hesitant{src: r} },
		"one byte, end with it":  func(r io.Reader) io.Reader { return iotest.DataErrReader(iotest.OneByteReader(r)) },
		"only a reader":          func(r io.Reader) io.Reader { return struct{ io.Reader }{r} },
	}
	for name, manner := range manners {
		for _, size := range []int{0, 1, 1000, 5000} {
			for _, declare := range []func([]byte) int64{exact, unknown} {
				object, data := newName(), content(uint64(size), size)
				err := p.s.Put(p.ctx, object, manner(bytes.NewReader(data)), declare(data))
				p.ok(err, "%s, %d bytes", name, size)
				p.ok(caught(func() { p.holds(object, data) }), "%s", name)
			}
		}
	}
}

// hesitant returns no bytes at every second read, which io.Reader permits.
type hesitant struct {
	src  io.Reader
	wait bool
}

func (r *hesitant) Read(p []byte) (int, error) {
	if r.wait = !r.wait; r.wait {
		return 0, nil
	}
	return r.src.Read(p)
}

func putConcurrent(p *probe) {
	const workers, each = 16, 4
	var names [workers][each]bytestore.Name
	body := func(w, i int) []byte { return content(uint64(w*each+i), 1+w*5000+i) }
	p.ok(errors.Join(race(workers, func(w int) error {
		return caught(func() {
			for i := range each {
				names[w][i] = newName()
				p.put(names[w][i], body(w, i))
				p.holds(names[w][i], body(w, i))
			}
		})
	})...), "concurrent puts")
	p.reopen()
	if all := p.list(""); len(all) != workers*each {
		p.fail("%d objects listed, want %d", len(all), workers*each)
	}
	for w := range workers {
		for i := range each {
			p.holds(names[w][i], body(w, i))
		}
	}
}

func hostile(p *probe) {
	name, data := newName(), content(1, 10)
	p.put(name, data)
	for _, bad := range hostileKeys {
		p.is(p.tryPut(bad, data), bytestore.ErrInvalidName, "Put(%q)", bad)
		p.opens(bad, 0, 0, bytestore.ErrInvalidName)
		p.is(p.s.Delete(p.ctx, bad), bytestore.ErrInvalidName, "Delete(%q)", bad)
	}
	p.reopen()
	p.lists("", bytestore.Object{Name: name, Size: 10})
}

// invisible checks from within a source's reads that the object is not visible yet.
func invisible(p *probe) {
	existing := bytestore.Object{Name: newName(), Size: 3}
	p.put(existing.Name, content(1, 3))
	for _, size := range []int{0, 1, 1000, 1<<20 + 1} {
		for _, at := range []int{0, size / 2, size} {
			name, data := newName(), content(uint64(size), size)
			src := during(data, at, func() error {
				return caught(func() { p.absent(name, existing) })
			})
			p.ok(p.s.Put(p.ctx, name, src, int64(size)), "%d bytes into a put of %d", at, size)
			p.holds(name, data)
			p.delete(name)
		}
	}
}

func putTwice(p *probe) {
	name, data := newName(), content(1, 1000)
	p.put(name, data)
	for _, size := range []int{0, 1, 1000, 5000} {
		p.is(p.tryPut(name, content(2, size)), bytestore.ErrExists, "second Put")
		p.holds(name, data)
	}
	p.reopen()
	p.is(p.tryPut(name, content(2, 10)), bytestore.ErrExists, "second Put")
	p.holds(name, data)
	p.lists("", bytestore.Object{Name: name, Size: 1000})
}

// putOvertaken runs a complete Put within another Put's reads, under the same name: a race with a
// known winner. It hangs if a Put waits for the source of another Put of its name.
func putOvertaken(p *probe) {
	for _, at := range []int{0, 500, 1000} {
		name, slow, quick := newName(), content(1, 1000), content(2, 700)
		src := during(slow, at, func() error { return p.tryPut(name, quick) })
		err := p.s.Put(p.ctx, name, src, int64(len(slow)))
		p.is(err, bytestore.ErrExists, "the overtaken Put")
		p.holds(name, quick)
	}
}

func putRacing(p *probe) {
	for round := range 20 {
		const racers = 8
		name := newName()
		var bodies [racers][]byte
		for i := range bodies {
			bodies[i] = content(uint64(round*racers+i), 1000+i)
		}
		winner := -1
		for i, err := range race(racers, func(i int) error { return p.tryPut(name, bodies[i]) }) {
			switch {
			case err == nil && winner >= 0:
				p.fail("puts %d and %d of %s both succeeded", winner, i, name)
			case err == nil:
				winner = i
			default:
				p.is(err, bytestore.ErrExists, "a losing put")
			}
		}
		if winner < 0 {
			p.fail("no put of %s succeeded", name)
		}
		p.holds(name, bodies[winner])
	}
	if all := p.list(""); len(all) != 20 {
		p.fail("%d objects listed after 20 races", len(all))
	}
}
