// Package logbuffer writes the request log's lines together, because they are many and not urgent,
// instead of by a system call each.
package logbuffer

import (
	"io"
	"sync"
	"time"
)

const (
	// Soon is how long a line waits at most, unless the log itself is blocked.
	Soon = time.Second
	// maxBuffered is how many bytes wait at most.
	maxBuffered = 32 << 10
)

// Buffer is a buffered writer. It writes whole lines in the order in which it got them. It is safe
// for concurrent use.
type Buffer struct {
	out   io.Writer
	after time.Duration

	writing sync.Mutex // held while out is written to, taken before mu
	spare   []byte     // empty; guarded by writing

	mu    sync.Mutex
	lines []byte
	timed bool // a flush follows within that time
}

// New returns a Buffer that writes lines to out when they have waited for this time, such as Soon.
// The caller must call Flush before the process ends.
func New(out io.Writer, after time.Duration) *Buffer { return &Buffer{out: out, after: after} }

// Write adds a line, which must be complete. It blocks only if more lines wait than may.
func (b *Buffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	if !b.timed {
		b.timed = true
		time.AfterFunc(b.after, b.flushInTime)
	}
	b.lines = append(b.lines, line...)
	full := len(b.lines) >= maxBuffered
	b.mu.Unlock()
	if !full {
		return len(line), nil
	}
	return len(line), b.Flush()
}

// Flush writes the lines that wait.
func (b *Buffer) Flush() error { return b.writeWith(nil) }

func (b *Buffer) flushInTime() {
	b.mu.Lock()
	b.timed = false
	b.mu.Unlock()
	_ = b.Flush() // slog ignores errors too
}

// writeWith writes the lines that wait, and then line.
func (b *Buffer) writeWith(line []byte) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	lines := append(b.lines, line...)
	b.lines, b.spare = b.spare, nil
	b.mu.Unlock()
	var err error
	if len(lines) > 0 {
		_, err = b.out.Write(lines)
	}
	if cap(lines) <= 2*maxBuffered { // a long line must not be retained
		b.spare = lines[:0]
	}
	return err
}

// immediate writes each line immediately.
type immediate struct{ *Buffer }

func (w immediate) Write(line []byte) (int, error) { return len(line), w.writeWith(line) }
