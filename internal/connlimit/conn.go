package connlimit

import (
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// Read reads from the connection, and notes when the client has closed its end.
func (conn *Conn) Read(p []byte) (int, error) {
	n, err := conn.TCPConn.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		conn.ended.Store(true)
	}
	return n, err
}

// Outcome is how a handler ended.
type Outcome int

// The outcomes.
const (
	Served  Outcome = iota
	Refused         // with an error response that the client can cause in any number
	Reset           // its stream was reset, by the client or for it
)

// maxWasted is how many more of a connection's requests may be refused or reset than are served
// before the connection is closed. A proxy's connection is never closed for this: one client would
// end other clients' requests.
const maxWasted = 500

// Wasted reports whether the next response that refuses a request must close the connection. A nil
// Conn is not limited.
func (conn *Conn) Wasted() bool {
	if conn == nil {
		return false
	}
	conn.l.mu.Lock()
	defer conn.l.mu.Unlock()
	return conn.wasted >= maxWasted
}

// Begin notes that a handler begins. A nil Conn is not limited.
func (conn *Conn) Begin() {
	if conn == nil {
		return
	}
	conn.l.mu.Lock()
	defer conn.l.mu.Unlock()
	conn.handlers++
	conn.use()
	conn.l.markActive(conn)
}

// use records that nobody needs to wait for the first request. The caller must hold the lock.
func (conn *Conn) use() {
	if !conn.used {
		conn.used = true
		conn.l.unused.done()
	}
}

// End records that a handler has returned. After too many resets it closes the connection.
func (conn *Conn) End(outcome Outcome) {
	if conn == nil {
		return
	}
	conn.l.mu.Lock()
	defer conn.l.mu.Unlock()
	conn.handlers--
	if conn.handlers == 0 { // little of the response is left to send
		conn.l.markIdle(conn)
	}
	switch {
	case conn.shared:
	case outcome == Served:
		conn.wasted = max(0, conn.wasted-1)
	case conn.wasted < maxWasted:
		conn.wasted++
	case outcome == Reset: // there is no response that could close it
		// The server notices the error and calls Close.
		_ = conn.TCPConn.Close()
	}
}

// lingerBytes is how many bytes of a request are read after its response, at most. A client that
// sends more is held up, and not reset, until LingerTimeout. The bytes are more than the buffers of
// two kernels, so a client that stops when it sees the response can finish.
const lingerBytes = 16 << 20

// Close closes the connection. If a request was served on it, it lingers first, in the background
// (RFC 9112, section 9.6): closing it with unread bytes would reset it, which destroys the response
// in flight and makes a proxy consider this node broken. Meanwhile the connection counts as open
// and idle. A connection with running handlers is closed immediately.
func (conn *Conn) Close() error {
	if conn.beginsToLinger() {
		go conn.linger()
		return nil
	}
	conn.l.mu.Lock()
	lingers := conn.lingers
	if !lingers {
		conn.l.remove(conn)
	}
	conn.l.mu.Unlock()
	if lingers {
		return net.ErrClosed
	}
	return conn.TCPConn.Close()
}

// beginsToLinger reports whether the connection must linger, and marks it.
func (conn *Conn) beginsToLinger() bool {
	l := conn.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if !conn.active || conn.handlers > 0 || conn.removed || conn.lingers || conn.ended.Load() {
		return false
	}
	conn.lingers = true
	l.lingering.add()
	l.markIdle(conn)
	return true
}

// linger ends a connection after its last response.
func (conn *Conn) linger() {
	drain(conn.TCPConn, lingerBytes, conn.l.LingerTimeout)
	_ = conn.TCPConn.Close() // no caller can handle the error
	l := conn.l
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(conn)
	l.lingering.done()
}

// drain closes a connection's sending side and then reads until the client closes its side: at most
// limit bytes, and for no longer than timeout. If more is sent, the rest stays in the kernels'
// buffers until the timeout.
func drain(conn *net.TCPConn, limit int64, timeout time.Duration) {
	deadline := time.Now().Add(timeout)
	// An error, here and below, means that the client is gone.
	if conn.SetDeadline(deadline) != nil || conn.CloseWrite() != nil {
		return
	}
	if _, err := io.CopyN(io.Discard, conn, limit); err == nil {
		time.Sleep(time.Until(deadline))
	}
}
