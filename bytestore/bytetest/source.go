package bytetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing/iotest"

	"sluice/bytestore"
)

// errSource is the sources' error in these checks.
var errSource = errors.New("bytetest: the source broke")

// hookReader calls hook once, after at bytes of src have been read, and fails if hook returns an
// error.
type hookReader struct {
	src  io.Reader
	at   int
	hook func() error
}

func (r *hookReader) Read(p []byte) (int, error) {
	if r.at == 0 && r.hook != nil {
		hook := r.hook
		r.hook = nil
		if err := hook(); err != nil {
			return 0, err
		}
	}
	if r.hook != nil {
		p = p[:min(len(p), r.at)]
	}
	n, err := r.src.Read(p)
	if r.hook != nil {
		r.at -= n
	}
	return n, err
}

// during returns a source of data that calls hook after at bytes.
func during(data []byte, at int, hook func() error) io.Reader {
	return &hookReader{src: bytes.NewReader(data), at: at, hook: hook}
}

// badSource is a source with which a Put must fail.
type badSource struct {
	name string
	want error
	// open returns the source; cancel ends the Put's context.
	open func(data []byte, cancel context.CancelFunc) io.Reader
	size func(data []byte) int64 // the declared size
}

func exact(data []byte) int64   { return int64(len(data)) }
func unknown(_ []byte) int64    { return bytestore.UnknownSize }
func oneMore(data []byte) int64 { return int64(len(data)) + 1 }
func double(data []byte) int64  { return int64(len(data)) * 2 }
func oneLess(data []byte) int64 { return int64(len(data)) - 1 }
func half(data []byte) int64    { return int64(len(data)) / 2 }

func whole(data []byte, _ context.CancelFunc) io.Reader { return bytes.NewReader(data) }

// failing returns a source that fails with err after at(len) bytes.
func failing(at func(n int) int, err error) func([]byte, context.CancelFunc) io.Reader {
	return func(data []byte, _ context.CancelFunc) io.Reader {
		return io.MultiReader(bytes.NewReader(data[:at(len(data))]), iotest.ErrReader(err))
	}
}

// cancelling returns a complete source that cancels the Put's context after at(len) bytes.
func cancelling(at func(n int) int) func([]byte, context.CancelFunc) io.Reader {
	return func(data []byte, cancel context.CancelFunc) io.Reader {
		return during(data, at(len(data)), func() error { cancel(); return nil })
	}
}

func first(int) int    { return 0 }
func middle(n int) int { return n / 2 }
func last(n int) int   { return n }

func badSources() []badSource {
	// A broken connection is not a source's end.
	brokenPipe := fmt.Errorf("connection lost: %w", io.EOF)
	return []badSource{
		{"ends one byte early", bytestore.ErrSize, whole, oneMore},
		{"ends half way", bytestore.ErrSize, whole, double},
		{"continues for one byte", bytestore.ErrSize, whole, oneLess},
		{"continues for twice the length", bytestore.ErrSize, whole, half},
		{"fails immediately", errSource, failing(first, errSource), exact},
		{"fails half way", errSource, failing(middle, errSource), exact},
		{"fails after the last byte", errSource, failing(last, errSource), exact},
		{"fails half way, size unknown", errSource, failing(middle, errSource), unknown},
		{"fails after the last byte, size unknown", errSource, failing(last, errSource), unknown},
		{"is cut half way", io.ErrUnexpectedEOF, failing(middle, io.ErrUnexpectedEOF), exact},
		{"is cut half way, size unknown", io.ErrUnexpectedEOF, failing(middle, io.ErrUnexpectedEOF), unknown},
		{"is cut at its end", io.ErrUnexpectedEOF, failing(last, io.ErrUnexpectedEOF), exact},
		{"fails with a wrapped EOF", brokenPipe, failing(middle, brokenPipe), unknown},
		{"is cancelled immediately", context.Canceled, cancelling(first), exact},
		{"is cancelled half way", context.Canceled, cancelling(middle), exact},
		{"is cancelled half way, size unknown", context.Canceled, cancelling(middle), unknown},
		{"is cancelled after the last byte", context.Canceled, cancelling(last), exact},
	}
}

// sourceChecks returns the checks of sources with which a Put must fail and leave nothing behind.
func sourceChecks() []Check {
	var checks []Check
	for _, src := range badSources() {
		checks = append(checks, onStore("source "+src.name, func(p *probe) {
			for i, size := range []int{2, 1000, 256 << 10, 1<<20 + 1} {
				p.refuses(src, content(uint64(i), size))
			}
		}))
	}
	return append(checks,
		onStore("context over before Put", putCancelled),
		onStore("source is refused again and again", refusedRepeatedly),
	)
}

// refuses ends the check unless a Put of src fails as expected, leaves no files, and leaves the
// name free.
func (p *probe) refuses(src badSource, data []byte) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	name := newName()
	err := p.s.Put(ctx, name, src.open(data, cancel), src.size(data))
	p.is(err, src.want, "Put of %d bytes", len(data))
	if !errors.Is(src.want, bytestore.ErrSize) && errors.Is(err, bytestore.ErrSize) {
		p.fail("%w was reported as a wrong size: %w", src.want, err)
	}
	p.absent(name)
	p.put(name, data)
	p.holds(name, data)
	p.delete(name)
	p.absent(name)
}

func putCancelled(p *probe) {
	over, cancel := context.WithCancel(p.ctx)
	cancel()
	name := newName()
	err := p.s.Put(over, name, bytes.NewReader(content(1, 10)), 10)
	p.is(err, context.Canceled, "Put with a context that has ended")
	p.absent(name)
	p.reopen()
	p.absent(name)
}

func refusedRepeatedly(p *probe) {
	for range 50 {
		src := io.MultiReader(bytes.NewReader(content(1, 100)), iotest.ErrReader(errSource))
		p.is(p.s.Put(p.ctx, newName(), src, 200), errSource, "Put")
	}
	p.lists("")
	p.reopen()
	p.lists("")
}
