package httpconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
)

// maxHeld is how many bytes are joined by copying them: a small response's header and body.
const maxHeld = 20 << 10

var holdBuffers = sync.Pool{New: func() any { return new([maxHeld]byte) }}

// joined is a connection that can join several writes to one.
type joined struct {
	timed

	// Used by the goroutine that writes.
	fields []byte         // see InsertFields; nil: none
	holds  bool           // see Hold
	buffer *[maxHeld]byte // nil: nothing is held
	held   int            // bytes in buffer
	sent   int64          // see Sent
	failed error          // of the write that lost held bytes
}

// Hold makes Write keep its bytes, until Release or until they are too many, so that they become
// one write to the kernel. net/http would write a response's header and most of its body first, and
// then the rest. Hold, Release, Write and ReadFrom must not be called concurrently.
func (conn *joined) Hold() { conn.holds = true }

// Release writes the held bytes, and ends Hold. After an error every further write fails, because
// the bytes that it would follow were lost.
func (conn *joined) Release() error {
	conn.holds = false
	_, err := conn.writeHeld(nil)
	return err
}

// InsertFields makes the connection insert header fields into the next response's header. Its first
// Write must have the status line. Each field ends with CRLF. They must be valid, must not concern
// the response's framing, and must not be changed until they are sent. An interim response (1xx)
// must not follow before. net/http would copy, sort and check them for each response.
func (conn *joined) InsertFields(fields []byte) { conn.fields = fields }

// Sent returns how many bytes the kernel has accepted.
func (conn *joined) Sent() int64 { return conn.sent }

// Write writes p, or holds it.
func (conn *joined) Write(p []byte) (int, error) {
	if conn.fields != nil {
		return conn.writeHead(p)
	}
	if conn.holds && conn.failed == nil && conn.held+len(p) <= maxHeld {
		if conn.buffer == nil {
			conn.buffer = holdBuffers.Get().(*[maxHeld]byte)
		}
		conn.held += copy(conn.buffer[conn.held:], p)
		return len(p), nil
	}
	return conn.writeHeld(p)
}

// writeHead writes p, which begins with a status line, with the inserted fields after that line.
func (conn *joined) writeHead(p []byte) (int, error) {
	fields, holds := conn.fields, conn.holds
	line := bytes.IndexByte(p, '\n') + 1
	conn.fields, conn.holds = nil, true
	n, err := conn.Write(p[:line])
	if err == nil {
		_, err = conn.Write(fields)
	}
	conn.holds = holds
	if err != nil || line == len(p) {
		return n, err
	}
	n, err = conn.Write(p[line:])
	return line + n, err
}

// ReadFrom writes the held bytes and then all of src, without copying it if it is a file, or a
// Positioned in an io.LimitedReader.
func (conn *joined) ReadFrom(src io.Reader) (int64, error) {
	if limited, isLimited := src.(*io.LimitedReader); isLimited {
		if file, ok := limited.R.(Positioned); ok {
			n, err := conn.sendFile(file, limited.N)
			limited.N -= n
			if !errors.Is(err, errors.ErrUnsupported) {
				return n, err
			}
			m, err := conn.copyFrom(src)
			return n + m, err
		}
	}
	return conn.copyFrom(src)
}

// sendFile writes the held bytes and n bytes of a file. It returns how many of the file's were
// written, and errors.ErrUnsupported if the file cannot be sent, but must be read.
func (conn *joined) sendFile(src Positioned, n int64) (int64, error) {
	if conn.failed != nil {
		return 0, conn.failed
	}
	file, offset := src.Position()
	if file == nil {
		return 0, errors.ErrUnsupported
	}
	var head []byte
	if conn.buffer != nil {
		head = conn.buffer[:conn.held]
	}
	total, err := conn.timed.sendFile(head, file, offset, n)
	if total == 0 && errors.Is(err, errors.ErrUnsupported) {
		return 0, err
	}
	conn.sent += total
	sent := total - int64(len(head))
	if sent < 0 {
		conn.failed, sent = err, 0
	}
	if conn.buffer != nil {
		holdBuffers.Put(conn.buffer)
		conn.buffer, conn.held = nil, 0
	}
	if _, seekErr := src.Seek(sent, io.SeekCurrent); seekErr != nil {
		return sent, errors.Join(err, seekErr)
	}
	return sent, err
}

// copyFrom writes the held bytes and then all of src, as the Transport can.
func (conn *joined) copyFrom(src io.Reader) (int64, error) {
	if _, err := conn.writeHeld(nil); err != nil {
		return 0, err
	}
	n, err := conn.timed.ReadFrom(src)
	conn.sent += n
	return n, err
}

// writeHeld writes the held bytes and then p, by one system call. It returns how many bytes of p
// were written.
func (conn *joined) writeHeld(p []byte) (int, error) {
	if conn.failed != nil {
		return 0, conn.failed
	}
	if conn.buffer == nil {
		if p == nil {
			return 0, nil
		}
		n, err := conn.timed.Write(p)
		conn.sent += int64(n)
		return n, err
	}
	held := conn.buffer[:conn.held]
	n, err := conn.writeBoth(held, p)
	conn.sent += n
	holdBuffers.Put(conn.buffer)
	conn.buffer, conn.held = nil, 0
	if err != nil {
		conn.failed = err
	}
	return int(max(0, n-int64(len(held)))), err
}

// maxCopied is a write's size up to which copying it is faster than writing two buffers by one
// call.
const maxCopied = 4 << 10

// writeBoth writes a, which may have memory after it that is not used, and then b. It returns how
// many bytes were written together.
func (conn *joined) writeBoth(a, b []byte) (int64, error) {
	if len(b) <= min(maxCopied, cap(a)-len(a)) {
		n, err := conn.timed.Write(append(a, b...))
		return int64(n), err
	}
	return conn.writeBuffers(net.Buffers{a, b})
}
