package client

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// sentBody is the body of one attempt to send bytes of content. It counts them until it is stopped.
type sentBody struct {
	content      io.ReaderAt
	offset, rest int64 // the unread bytes, in content
	progress     *progress
	closed       chan struct{}
	close        sync.Once

	mu      sync.Mutex
	sent    int64
	stopped bool
}

func newSentBody(content io.ReaderAt, offset, length int64, p *progress) *sentBody {
	return &sentBody{content: content, offset: offset, rest: length, progress: p, closed: make(chan struct{})}
}

// Read returns ErrChanged if the content ends before all its bytes were read.
func (b *sentBody) Read(p []byte) (int, error) {
	if b.rest == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), b.rest)]
	n, err := b.content.ReadAt(p, b.offset)
	b.advance(int64(n))
	if n < len(p) {
		return n, &localError{endedEarly(err)}
	}
	return n, nil
}

// file returns the file that has the body's rest from the returned offset on. It returns nil if the
// bytes are not in a file.
func (b *sentBody) file() (*os.File, int64) {
	content, offset := b.content, b.offset
	for {
		switch c := content.(type) {
		case *os.File:
			return c, offset
		case *io.SectionReader:
			outer, base, _ := c.Outer()
			content, offset = outer, base+offset
		default:
			return nil, 0
		}
	}
}

// advance counts n bytes that were read or sent.
func (b *sentBody) advance(n int64) {
	b.offset, b.rest = b.offset+n, b.rest-n
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return
	}
	b.sent += n
	b.progress.add(n)
}

// Close is called by net/http when it does not read the body any more.
func (b *sentBody) Close() error {
	b.close.Do(func() { close(b.closed) })
	return nil
}

// stop ends the counting. If the attempt failed, its bytes are subtracted.
func (b *sentBody) stop(failed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if failed && !b.stopped {
		b.progress.add(-b.sent)
	}
	b.stopped = true
}

// endedEarly returns the error for content that is shorter than it was.
func endedEarly(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the content is shorter than at the beginning", ErrChanged)
	}
	return err
}
