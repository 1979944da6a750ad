package connlimit

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// Listener returns a listener that limits the connections of inner, which must be TCP connections.
// If secure is set, they use TLS, on which a refused connection is closed without a response.
// Accept returns only temporary errors, for which http.Server retries, until inner is closed.
func (l *Limiter) Listener(inner net.Listener, secure bool) net.Listener {
	return &listener{Listener: inner, l: l, secure: secure}
}

type listener struct {
	net.Listener
	l      *Limiter
	secure bool
}

// Accept returns the next connection that is not refused.
func (ln *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := ln.Listener.Accept()
		if err != nil {
			return nil, ln.l.acceptFailed(err)
		}
		tcp := accepted.(*net.TCPConn)
		conn, crowded, reason := ln.l.admit(tcp)
		if reason == 0 {
			// If the connection is closed already, the server notices it.
			_ = limitUnsent(tcp)
			return conn, nil
		}
		ln.refuse(tcp, crowded, reason)
	}
}

// refuse refuses a connection. crowded is the source that is at its limit, or nil.
func (ln *listener) refuse(tcp *net.TCPConn, crowded *source, reason Reason) {
	l, respond := ln.l, !ln.secure
	if crowded == nil {
		l.refused.Add(1)
	} else {
		l.crowded.Add(1)
		// One address must not take all slots, for which other addresses would have to wait.
		respond = respond && l.refusingOf(crowded) <= cap(l.refusals)/8
	}
	if !respond {
		_ = tcp.Close() // nothing was sent that could be lost
		l.refusalEnds(crowded)
		return
	}
	l.refusals <- struct{}{} // for RefusalTimeout at most
	go func() {
		defer func() {
			<-l.refusals
			l.refusalEnds(crowded)
		}()
		refuse(tcp, l.RefusalTimeout, func(head bool) []byte { return l.refusal(reason, head) })
	}()
}

func (l *Limiter) refusingOf(s *source) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.refusing
}

func (l *Limiter) refusalEnds(s *source) {
	if s == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.refusing--
}

// refusalDrain is how many bytes of a refused request are read.
const refusalDrain = 256 << 10

// refuse sends a response to a connection's first request and closes it. A client that is gone or
// too slow gets no response.
func refuse(conn *net.TCPConn, timeout time.Duration, response func(head bool) []byte) {
	// No caller can handle errors, here and below.
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return
	}
	// Clients ignore a response that arrives before the request.
	var start [len("HEAD ")]byte
	if _, err := io.ReadFull(conn, start[:]); err != nil {
		return
	}
	text := response(string(start[:]) == "HEAD ")
	if text == nil {
		return
	}
	if _, err := conn.Write(text); err != nil {
		return
	}
	drain(conn, refusalDrain, timeout)
}

// acceptFailed returns an error of Accept as a temporary one unless the listener is closed. If file
// handles have run out, it evicts an idle connection.
func (l *Limiter) acceptFailed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return err
	}
	l.failed.Add(1)
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.evict(&l.idle)
	}
	return &temporaryError{err}
}

// temporaryError is a net.Error for which http.Server retries.
type temporaryError struct{ error }

// Unwrap returns the system's error.
func (e *temporaryError) Unwrap() error { return e.error }

// Timeout implements net.Error.
func (e *temporaryError) Timeout() bool { return false }

// Temporary implements net.Error. http.Server retries if it returns true.
func (e *temporaryError) Temporary() bool { return true }
