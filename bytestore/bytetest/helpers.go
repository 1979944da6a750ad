package bytetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"sluice/bytestore"
)

// probe is a running check. Its methods end the check at the first violation.
type probe struct {
	ctx context.Context
	h   Harness
	s   bytestore.Store // the latest handle
}

// wrong is the value with which a probe panics to end its check.
type wrong struct{ err error }

// onStore returns the check that calls fn with a probe.
func onStore(name string, fn func(p *probe)) Check {
	return Check{Name: name, Run: func(ctx context.Context, h Harness) error {
		return caught(func() {
			p := &probe{ctx: ctx, h: h}
			p.reopen()
			fn(p)
		})
	}}
}

// caught returns the violation at which fn ended. On other goroutines than the check's, and within
// a source's reads, a probe's methods may be called only in fn.
func caught(fn func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			w, ok := r.(wrong)
			if !ok {
				panic(r)
			}
			err = w.err
		}
	}()
	fn()
	return nil
}

func (p *probe) fail(format string, a ...any) { panic(wrong{fmt.Errorf(format, a...)}) }

// ok ends the check if err is not nil.
func (p *probe) ok(err error, format string, a ...any) {
	if err != nil {
		p.fail("%s: %w", fmt.Sprintf(format, a...), err)
	}
}

// is ends the check unless err matches want.
func (p *probe) is(err, want error, format string, a ...any) {
	if !errors.Is(err, want) {
		p.fail("%s: got error %v, want %w", fmt.Sprintf(format, a...), err, want)
	}
}

// reopen opens another handle, which the check uses from then on.
func (p *probe) reopen() {
	var err error
	p.s, err = p.h.Open()
	p.ok(err, "open")
}

// content returns size pseudorandom bytes that depend on the seed.
func content(seed uint64, size int) []byte {
	data := make([]byte, size)
	name := [32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24), 's'}
	_, _ = rand.NewChaCha8(name).Read(data) // never fails
	return data
}

// newName returns a new name with a fixed time, so that the order of names is random.
func newName() bytestore.Name { return bytestore.NewName(time.UnixMilli(1_700_000_000_000)) }

// tryPut stores data under name, with its size declared.
func (p *probe) tryPut(name bytestore.Name, data []byte) error {
	return p.s.Put(p.ctx, name, bytes.NewReader(data), int64(len(data)))
}

// put stores data under name.
func (p *probe) put(name bytestore.Name, data []byte) {
	p.ok(p.tryPut(name, data), "Put(%s) of %d bytes", name, len(data))
}

func (p *probe) delete(name bytestore.Name) {
	p.ok(p.s.Delete(p.ctx, name), "Delete(%s)", name)
}

// open opens n bytes of name from offset off.
func (p *probe) open(name bytestore.Name, off, n int64) io.ReadCloser {
	r, err := p.s.Open(p.ctx, name, off, n)
	p.ok(err, "Open(%s, %d, %d)", name, off, n)
	return r
}

// reads ends the check unless the n bytes of name from offset off are want.
func (p *probe) reads(name bytestore.Name, off int64, want []byte) {
	r := p.open(name, off, int64(len(want)))
	got := make([]byte, len(want))
	_, err := io.ReadFull(r, got)
	p.ok(errors.Join(err, r.Close()), "read %d bytes at %d of %s", len(want), off, name)
	p.same(got, want, "%d bytes at %d of %s", len(want), off, name)
}

// same ends the check if got differs from want.
func (p *probe) same(got, want []byte, format string, a ...any) {
	if bytes.Equal(got, want) {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	p.fail("%s: different from byte %d on (%d bytes, want %d)",
		fmt.Sprintf(format, a...), at, len(got), len(want))
}

// holds ends the check unless the store has exactly data under name.
func (p *probe) holds(name bytestore.Name, data []byte) {
	p.reads(name, 0, data)
	p.opens(name, 0, int64(len(data))+1, bytestore.ErrTruncated)
}

// opens ends the check unless Open fails for the range with want.
func (p *probe) opens(name bytestore.Name, off, n int64, want error) {
	r, err := p.s.Open(p.ctx, name, off, n)
	if err == nil {
		p.fail("Open(%q, %d, %d) succeeded, want %w", name, off, n, errors.Join(want, r.Close()))
	}
	p.is(err, want, "Open(%q, %d, %d)", name, off, n)
}

// list returns all objects after a name.
func (p *probe) list(after bytestore.Name) []bytestore.Object {
	var all []bytestore.Object
	err := p.s.List(p.ctx, after, func(o bytestore.Object) error {
		all = append(all, o)
		return nil
	})
	p.ok(err, "List(%q)", after)
	return all
}

// lists ends the check unless the store lists exactly the objects want, in this order, after the
// name.
func (p *probe) lists(after bytestore.Name, want ...bytestore.Object) {
	if got := p.list(after); !slices.Equal(got, want) {
		p.fail("List(%q):\n  got  %v\n  want %v", after, got, want)
	}
}

// absent ends the check unless name is absent and the store lists only want.
func (p *probe) absent(name bytestore.Name, want ...bytestore.Object) {
	p.opens(name, 0, 0, bytestore.ErrNotFound)
	p.lists("", want...)
}

// race calls fn n times concurrently, and returns the errors.
func race(n int, fn func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = fn(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}
