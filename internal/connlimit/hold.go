package connlimit

import (
	"io"
	"net"
	"sync"
)

// maxHeld is how many bytes are joined by copying them: the header and body of a small response.
const maxHeld = 20 << 10

var holdBuffers = sync.Pool{New: func() any { return new([maxHeld]byte) }}

// joined is a connection that can join several writes to one.
type joined struct {
	*net.TCPConn

	// Used by the goroutine that writes.
	holds  bool           // see Hold
	buffer *[maxHeld]byte // nil: nothing is held
	held   int            // bytes in buffer
	sent   int64          // see Sent
	failed error          // of the write that lost held bytes
}

// Hold makes Write keep what it is passed, until Release or until it is too much, so that it becomes
// one write to the kernel. net/http would write the header of a response and most of its body first,
// and then the rest. Hold, Release, Write and ReadFrom must not be called concurrently.
func (conn *joined) Hold() { conn.holds = true }

// Release writes what is held, and ends Hold. After an error every further write fails, because the
// bytes that it would follow were lost.
func (conn *joined) Release() error {
	conn.holds = false
	_, err := conn.writeHeld(nil)
	return err
}

// Sent returns how many bytes the kernel has accepted.
func (conn *joined) Sent() int64 { return conn.sent }

// Write writes p, or holds it.
func (conn *joined) Write(p []byte) (int, error) {
	if conn.holds && conn.failed == nil && conn.held+len(p) <= maxHeld {
		if conn.buffer == nil {
			conn.buffer = holdBuffers.Get().(*[maxHeld]byte)
		}
		conn.held += copy(conn.buffer[conn.held:], p)
		return len(p), nil
	}
	return conn.writeHeld(p)
}

// ReadFrom writes what is held and then all of src, without copying it if it is a file.
func (conn *joined) ReadFrom(src io.Reader) (int64, error) {
	if _, err := conn.writeHeld(nil); err != nil {
		return 0, err
	}
	n, err := conn.TCPConn.ReadFrom(src)
	conn.sent += n
	return n, err
}

// writeHeld writes what is held and then p, by one system call. It returns how many bytes of p were
// written.
func (conn *joined) writeHeld(p []byte) (int, error) {
	if conn.failed != nil {
		return 0, conn.failed
	}
	if conn.buffer == nil {
		if p == nil {
			return 0, nil
		}
		n, err := conn.TCPConn.Write(p)
		conn.sent += int64(n)
		return n, err
	}
	held := conn.buffer[:conn.held]
	n, err := writeBoth(conn.TCPConn, held, p)
	conn.sent += n
	holdBuffers.Put(conn.buffer)
	conn.buffer, conn.held = nil, 0
	if err != nil {
		conn.failed = err
	}
	return int(max(0, n-int64(len(held)))), err
}

// writeBoth writes a and b. It returns how many bytes were written together.
func writeBoth(conn *net.TCPConn, a, b []byte) (int64, error) {
	if len(b) == 0 {
		n, err := conn.Write(a)
		return int64(n), err
	}
	both := net.Buffers{a, b}
	return both.WriteTo(conn)
}
