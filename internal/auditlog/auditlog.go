// Package auditlog writes a line for each access to a blob, which names the key and the blob, for
// an operator who must know who did what. Requests never wait for it: lines that cannot be written
// are counted and lost. Lines are not synced.
package auditlog

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// maxWaiting is how many bytes wait at most for the file or the pipe.
	maxWaiting = 4 << 20
	// closeTimeout is how long Close waits for them.
	closeTimeout = 5 * time.Second
	// quiet is the time without a lost line after which the log has recovered.
	quiet = time.Minute
)

// Stdout is the name of standard output.
const Stdout = "-"

// Log is an audit log. Its methods may be called concurrently, and do not block unless their
// comments say so. A nil *Log writes nothing.
type Log struct {
	open opener
	log  *slog.Logger

	mu       sync.Mutex
	waiting  []byte
	entries  int64 // whole lines in waiting
	closed   bool
	lastLoss time.Time // zero: nothing was lost, or the log has recovered

	wake, reopen chan struct{}
	ended        chan struct{}

	written, lost atomic.Int64 // lines

	// Only the writing goroutine uses these.
	out  io.WriteCloser
	torn bool // the file ends within a line
}

// opener opens the output, and reports whether it ends within a line.
type opener func() (out io.WriteCloser, torn bool, err error)

// Open opens a file, to which lines are appended, or Stdout. Only its owner can read a file that it
// creates. A named pipe must have a reader. Problems with the file are logged to log.
func Open(name string, log *slog.Logger) (*Log, error) {
	if name == Stdout {
		return start(func() (io.WriteCloser, bool, error) { return unclosed{os.Stdout}, false, nil }, log)
	}
	return start(func() (io.WriteCloser, bool, error) { return openFile(name) }, log)
}

// openFile opens a file to append to it. It does not wait for the reader of a named pipe.
func openFile(name string) (out io.WriteCloser, torn bool, err error) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, false, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, false, errors.Join(err, f.Close())
	}
	if info.Mode().IsRegular() && info.Size() > 0 {
		if torn, err = endsWithinLine(name, info.Size()); err != nil {
			return nil, false, errors.Join(err, f.Close())
		}
	}
	return f, torn, nil
}

func endsWithinLine(name string, size int64) (bool, error) {
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, size-1)
	return last[0] != '\n', errors.Join(err, f.Close())
}

// unclosed is a file that remains open.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

func start(open opener, log *slog.Logger) (*Log, error) {
	out, torn, err := open()
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	l := &Log{open: open, log: log, out: out, torn: torn, wake: make(chan struct{}, 1), reopen: make(chan struct{}, 1), ended: make(chan struct{})}
	go l.run()
	return l, nil
}

// Add adds a line. It is lost if too many wait, or if the log is closed.
func (l *Log) Add(e Entry) {
	if l == nil {
		return
	}
	var memory [512]byte
	line := e.append(memory[:0])
	l.mu.Lock()
	fits := !l.closed && len(l.waiting)+len(line) <= maxWaiting
	if fits {
		l.waiting = append(l.waiting, line...)
		l.entries++
	}
	l.mu.Unlock()
	if !fits {
		l.lose(1, errTooSlow)
	}
	notify(l.wake)
}

// errTooSlow is the reason why a line is lost that has not been tried.
var errTooSlow = errors.New("its file or pipe takes lines too slowly")

// Reopen opens the file again, which a rotation has renamed. If that fails, lines still go to the
// old one.
func (l *Log) Reopen() {
	if l != nil {
		notify(l.reopen)
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a notification is pending
	}
}

// Written returns how many lines were written.
func (l *Log) Written() int64 { return l.count(func(l *Log) int64 { return l.written.Load() }) }

// Lost returns how many lines could not be written.
func (l *Log) Lost() int64 { return l.count(func(l *Log) int64 { return l.lost.Load() }) }

func (l *Log) count(of func(*Log) int64) int64 {
	if l == nil {
		return 0
	}
	return of(l)
}

// Close writes the lines that wait, for at most five seconds, and closes the file. Lines that are
// added afterwards are lost.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	notify(l.wake)
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-l.ended:
		return nil
	case <-timer.C:
		return errors.New("the audit log was not written completely: its file or pipe takes no more bytes")
	}
}

// run writes the lines until the log is closed.
func (l *Log) run() {
	defer close(l.ended)
	var spare []byte
	for {
		select {
		case <-l.wake:
		case <-l.reopen:
			l.reopenFile()
			continue
		}
		l.mu.Lock()
		lines, entries, closed := l.waiting, l.entries, l.closed
		l.waiting, l.entries = spare[:0], 0
		l.mu.Unlock()
		if entries > 0 {
			l.write(lines, entries)
		}
		spare = lines
		if closed {
			if err := l.out.Close(); err != nil {
				l.log.Error("cannot close the audit log", "error", err)
			}
			return
		}
	}
}

func (l *Log) reopenFile() {
	out, torn, err := l.open()
	if err != nil {
		l.log.Error("cannot reopen the audit log: lines still go to the old file", "error", err)
		return
	}
	if err := l.out.Close(); err != nil {
		l.log.Error("cannot close the old file of the audit log", "error", err)
	}
	l.out, l.torn = out, torn
	l.log.Info("reopened the audit log")
}

// write writes whole lines. After an error it has lost those that are not complete in the file.
func (l *Log) write(lines []byte, entries int64) {
	if l.torn { // what follows must not continue the torn line
		if _, err := l.out.Write([]byte{'\n'}); err != nil {
			l.lose(entries, err)
			return
		}
		l.torn = false
	}
	n, err := l.out.Write(lines)
	if err == nil {
		l.written.Add(entries)
		l.recover()
		return
	}
	complete := countLines(lines[:n])
	l.torn = n > 0 && lines[n-1] != '\n'
	l.written.Add(complete)
	l.lose(entries-complete, err)
}

func countLines(b []byte) (n int64) {
	for _, c := range b {
		if c == '\n' {
			n++
		}
	}
	return n
}

// lose counts lines that could not be written, and logs the first ones.
func (l *Log) lose(entries int64, err error) {
	l.lost.Add(entries)
	l.mu.Lock()
	first := l.lastLoss.IsZero()
	l.lastLoss = time.Now()
	l.mu.Unlock()
	if first {
		l.log.Error("cannot write the audit log: lines are lost, and counted by sluice_audit_lines_total", "error", err)
	}
}

// recover logs that no line has been lost for a time.
func (l *Log) recover() {
	l.mu.Lock()
	recovered := !l.lastLoss.IsZero() && time.Since(l.lastLoss) >= quiet
	if recovered {
		l.lastLoss = time.Time{}
	}
	l.mu.Unlock()
	if recovered {
		l.log.Info("the audit log is written again", "lines_lost", l.lost.Load())
	}
}
