package httpapi

import (
	"context"
	"io"
	"net"
	"time"
)

// What a connection reads off, at most, between the last reply and its end. A
// sender of more is held up, and not reset, until the time is over: one that
// reads its reply meanwhile closes its end. The bytes are more than the buffers
// of two kernels hold, so that a sender who stops when it sees the reply has
// room to finish.
const (
	lingerTime  = 10 * time.Second
	lingerBytes = 16 << 20
)

// Close closes the connection. One on which a request was served lingers first,
// in the background (RFC 9112, section 9.6): to close with bytes unread would
// reset it, which destroys the reply on its way to the client, and makes a proxy
// take this node for a broken one. Meanwhile it holds its place, and is quiet. A
// connection whose handlers are still at work is cut at once.
func (conn *connection) Close() error {
	if conn.beginsToLinger() {
		go conn.linger()
		return nil
	}
	conn.c.mu.Lock()
	lingers := conn.lingers
	if !lingers {
		conn.c.leave(conn)
	}
	conn.c.mu.Unlock()
	if lingers {
		return net.ErrClosed
	}
	return conn.TCPConn.Close()
}

// beginsToLinger reports whether a connection that is to be closed lingers from
// now on.
func (conn *connection) beginsToLinger() bool {
	c := conn.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !conn.active || conn.handlers > 0 || conn.left || conn.lingers || conn.over.Load() {
		return false
	}
	conn.lingers = true
	c.closing++
	c.rest(conn)
	return true
}

// linger ends a connection whose last reply is sent.
func (conn *connection) linger() {
	readOff(conn.TCPConn, lingerBytes, conn.c.lingering)
	_ = conn.TCPConn.Close() // nobody is left to tell of an error
	c := conn.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave(conn)
	c.closing--
	if c.closing == 0 && c.allEnded != nil {
		close(c.allEnded)
		c.allEnded = nil
	}
}

// Wait waits until no connection lingers, or ctx ends.
func (c *Connections) Wait(ctx context.Context) {
	c.mu.Lock()
	if c.closing == 0 {
		c.mu.Unlock()
		return
	}
	if c.allEnded == nil {
		c.allEnded = make(chan struct{})
	}
	ended := c.allEnded
	c.mu.Unlock()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// readOff tells the client that nothing more is sent to it, and then reads what
// it still sends until it closes its end: up to limit bytes, and no longer than
// patience. When more than that comes it leaves the rest to the buffers of the
// kernels, and waits for the time to pass.
func readOff(conn *net.TCPConn, limit int64, patience time.Duration) {
	deadline := time.Now().Add(patience)
	// An error, here and below, means that there is nobody to wait for.
	if conn.SetDeadline(deadline) != nil || conn.CloseWrite() != nil {
		return
	}
	if _, err := io.CopyN(io.Discard, conn, limit); err == nil {
		time.Sleep(time.Until(deadline))
	}
}
