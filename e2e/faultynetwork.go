package e2e

import (
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// FaultyNetwork is a listener. Its connections stall and end after numbers of bytes that depend on
// its seed.
type FaultyNetwork struct {
	net.Listener

	Mu           sync.Mutex
	Random       *rand.Rand
	Ends, Stalls int // faults so far
}

// Accept returns a connection that fails.
func (n *FaultyNetwork) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &faultyConn{TCPConn: c.(*net.TCPConn), network: n, in: n.plan(), out: n.plan()}, nil
}

// plan returns the next fault for one of a connection's directions. A quarter of all faults are
// within a header, the rest anywhere in up to 4 MiB.
func (n *FaultyNetwork) plan() fault {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	f := fault{after: 1 + n.Random.IntN(4<<20), reset: n.Random.IntN(2) == 0}
	if n.Random.IntN(4) == 0 {
		f.after = 1 + n.Random.IntN(1000)
	}
	if n.Random.IntN(3) == 0 {
		f.stall = time.Duration(1 + n.Random.IntN(int(200*time.Millisecond)))
	}
	return f
}

// fault ends or stalls one direction after a number of bytes.
type fault struct {
	after int
	stall time.Duration // it stalls for this long; 0: it ends
	reset bool          // it ends with a reset
}

// faultyConn is a connection with faults. Its reads must not be concurrent, and neither must its
// writes.
type faultyConn struct {
	*net.TCPConn
	network *FaultyNetwork
	in, out fault // the next ones
}

// errFault is the error on a connection that the network has ended.
var errFault = errors.New("the network ended the connection")

// Read reads bytes that were sent before the next fault.
func (c *faultyConn) Read(p []byte) (int, error) {
	if err := c.due(&c.in); err != nil {
		return 0, err
	}
	n, err := c.TCPConn.Read(p[:min(len(p), c.in.after)])
	c.in.after -= n
	return n, err
}

// Write sends p. If a fault ends the connection, it sends the bytes before it.
func (c *faultyConn) Write(p []byte) (written int, err error) {
	for err == nil && written < len(p) {
		if err := c.due(&c.out); err != nil {
			return written, err
		}
		var n int
		n, err = c.TCPConn.Write(p[written:min(len(p), written+c.out.after)])
		written, c.out.after = written+n, c.out.after-n
	}
	return written, err
}

// due waits until a stall that is due ends, or ends the connection.
func (c *faultyConn) due(f *fault) error {
	if f.after > 0 {
		return nil
	}
	if f.stall > 0 {
		<-time.After(f.stall) // no other event ends it
		c.count(&c.network.Stalls)
		*f = c.network.plan()
		return nil
	}
	c.count(&c.network.Ends)
	var err error
	if f.reset {
		err = c.SetLinger(0)
	}
	return errors.Join(errFault, err, c.Close())
}

func (c *faultyConn) count(n *int) {
	c.network.Mu.Lock()
	defer c.network.Mu.Unlock()
	*n++
}
