package fault

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Piece is a number of bytes that arrive together on a connection.
type Piece struct {
	Conn      int   // the connection's number
	Answer    bool  // they go to the client
	Sent, Len int64 // how many bytes went in this direction before since Disturb, and how many these are
}

// Trouble is the fault of a piece. With Fail the connection ends, and with Delay the bytes
// arrive later.
type Trouble struct {
	Kind  Kind
	After int64         // so many bytes of the piece pass before
	Reset bool          // of Fail
	Time  time.Duration // of Delay; 0 means that they never arrive
}

// Network is a listener with connections that have faults.
type Network struct {
	net.Listener

	turn    sync.Mutex // guards trouble and epoch
	trouble func(Piece) Trouble
	epoch   int // of trouble

	mu    sync.Mutex // guards count and conns
	count int
	conns map[*conn]bool
}

// On returns a network on a listener of TCP.
func On(l net.Listener) *Network { return &Network{Listener: l, conns: map[*conn]bool{}} }

// Before returns a network that forwards connections to an address, until the test ends.
func Before(t testing.TB, to string) *Network {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := On(l)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := n.Accept()
			if err != nil {
				return // the test has ended
			}
			running.Go(func() { forward(client, to) })
		}
	})
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		n.Cut()
		running.Wait()
	})
	return n
}

// forward forwards a connection until one of its sides ends.
func forward(client net.Conn, to string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	var directions sync.WaitGroup
	directions.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
	directions.Go(func() { _, _ = io.Copy(client, server); _ = client.Close() })
	directions.Wait()
}

// Address returns where the network listens.
func (n *Network) Address() string { return n.Addr().String() }

// Disturb sets the fault of each piece from now on, also on connections that exist. nil: there is
// none. The function is called for one piece at a time, and may call Cut.
func (n *Network) Disturb(trouble func(Piece) Trouble) {
	n.turn.Lock()
	defer n.turn.Unlock()
	n.trouble = trouble
	n.epoch++
}

// EndAfter returns the trouble that each connection ends when so many bytes have gone in a
// direction.
func EndAfter(bytes int64, answer, reset bool) func(Piece) Trouble {
	return func(p Piece) Trouble {
		if p.Answer != answer || p.Sent+p.Len <= bytes {
			return Trouble{}
		}
		return Trouble{Kind: Fail, After: max(0, bytes-p.Sent), Reset: reset}
	}
}

// Cut resets all connections.
func (n *Network) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		_ = c.end(true) // it may have ended
	}
}

// Accept accepts a connection.
func (n *Network) Accept() (net.Conn, error) {
	accepted, err := n.Listener.Accept()
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count++
	c := &conn{Conn: accepted, network: n, number: n.count, ended: make(chan struct{})}
	n.conns[c] = true
	return c, nil
}

// conn is a connection of a network. Its reads must not be concurrent, and neither must its writes.
type conn struct {
	net.Conn // not as *net.TCPConn, which reads from files without Write
	network  *Network
	number   int
	in, out  direction
	read     []byte // that arrived and was not delivered
	once     sync.Once
	ended    chan struct{}
}

// direction is how many bytes have gone in a direction since the trouble was set.
type direction struct {
	sent  int64
	epoch int
}

// Read reads bytes that the client has sent.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.read) == 0 {
		buffer := make([]byte, max(1, len(p)))
		n, err := c.Conn.Read(buffer)
		if err != nil {
			return n, err
		}
		c.read = buffer[:n]
	}
	passed, err := c.pass(&c.in, false, min(len(p), len(c.read)))
	if err != nil {
		return 0, err
	}
	n := copy(p, c.read[:passed])
	c.read = c.read[n:]
	return n, nil
}

// Write sends p to the client, up to the fault that ends the connection.
func (c *conn) Write(p []byte) (written int, err error) {
	for written < len(p) {
		passed, err := c.pass(&c.out, true, len(p)-written)
		if err != nil {
			return written, err
		}
		n, err := c.Conn.Write(p[written : written+passed])
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// pass returns how many of a piece's bytes pass now, at least one, after their trouble.
func (c *conn) pass(d *direction, answer bool, size int) (int, error) {
	if size == 0 {
		return 0, nil
	}
	t := c.next(d, answer, int64(size))
	passed := int64(size)
	switch {
	case t.Kind == None:
	case t.After > 0:
		passed = min(t.After, passed) // the rest has the trouble
	case t.Kind == Fail:
		return 0, errors.Join(ErrFault, c.end(t.Reset))
	case t.Time == 0:
		<-c.ended
		return 0, net.ErrClosed
	default:
		select {
		case <-time.After(t.Time):
		case <-c.ended:
			return 0, net.ErrClosed
		}
	}
	d.sent += passed
	return int(passed), nil
}

// next returns a piece's trouble.
func (c *conn) next(d *direction, answer bool, size int64) Trouble {
	c.network.turn.Lock()
	defer c.network.turn.Unlock()
	if d.epoch != c.network.epoch {
		*d = direction{epoch: c.network.epoch}
	}
	if c.network.trouble == nil {
		return Trouble{}
	}
	return c.network.trouble(Piece{c.number, answer, d.sent, size})
}

// Close closes the connection.
func (c *conn) Close() error {
	c.network.mu.Lock()
	delete(c.network.conns, c)
	c.network.mu.Unlock()
	return c.end(false)
}

func (c *conn) end(reset bool) error {
	c.once.Do(func() { close(c.ended) })
	if tcp, ok := c.Conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0) // it may be closed
	}
	return c.Conn.Close()
}
