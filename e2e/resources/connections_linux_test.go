package resources

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// The numbers of connections that the process must serve within connectionMemory: idle ones, and
// ones with a transfer in progress, half of them in each direction.
const (
	idleConnections   = 10_000
	activeConnections = 2_000
	connectionMemory  = 512 << 20
)

// connectionWorkers is how many of the test's goroutines share the connections.
const connectionWorkers = 8

// TestMemoryOfManyConnections opens 10,000 idle connections, 1,000 slow uploads, and 1,000
// downloads with clients that stall and then read little. The server must stay within its memory
// limit and continue to serve.
// Invariant 45.
func TestMemoryOfManyConnections(t *testing.T) {
	needFiles(t, idleConnections+activeConnections*3/2+1000)
	s := e2e.Start(t, e2e.Options{Wrapper: []string{"env", "GOMEMLIMIT=400MiB"}}) // as in docs/operations.md
	small, large := e2e.Content(1, 1000), e2e.Content(2, 64<<20)
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "small"), small)
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "large"), large)

	idle := connect(s, idleConnections)
	t.Logf("%d connections: %d MiB", len(idle), peakMemory(s)>>20)
	each(t, idle, func(c *transfer) error {
		if err := c.Send("GET " + e2e.BlobTarget("0x1", "small") + " HTTP/1.1\r\nHost: " + s.Host + "\r\n\r\n"); err != nil {
			return err
		}
		return errors.Join(c.head("200"), c.expect(small))
	})
	t.Logf("%d of them idle: %d MiB", len(idle), peakMemory(s)>>20)

	downloads := connect(s, activeConnections/2)
	each(t, downloads, func(c *transfer) error {
		return errors.Join(c.Send("GET "+e2e.BlobTarget("0x1", "large")+" HTTP/1.1\r\nHost: "+s.Host+"\r\n\r\n"), c.head("200"))
	})
	t.Logf("and %d downloads: %d MiB", len(downloads), peakMemory(s)>>20)
	uploads := connect(s, activeConnections/2)
	const uploadSize = 600 << 10 // more than all buffers on the way
	for i, c := range uploads {
		c.name = fmt.Sprint("upload ", i)
	}
	each(t, uploads, func(c *transfer) error {
		return c.Send(fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", e2e.BlobTarget("0x1", c.name), s.Host, uploadSize))
	})
	const rounds = 10
	for range rounds {
		each(t, downloads, func(c *transfer) error { return c.expect(large[c.moved:][:64<<10]) })
		each(t, uploads, func(c *transfer) error { return c.Body(large[c.moved:][:50<<10]) })
	}
	t.Logf("and %d uploads: %d MiB", len(uploads), peakMemory(s)>>20)

	s.Holds(e2e.BlobTarget("0x1", "small"), small)
	// The test completes some of each kind.
	each(t, idle[:100], func(c *transfer) error {
		return errors.Join(c.Send("GET /livez HTTP/1.1\r\nHost: "+s.Host+"\r\n\r\n"), c.head("200"))
	})
	each(t, downloads[:5], func(c *transfer) error { return c.expect(large[c.moved:]) })
	each(t, uploads[:100], func(c *transfer) error {
		return errors.Join(c.Body(large[c.moved:uploadSize]), c.head("204"))
	})
	peak := peakMemory(s)
	t.Logf("peak memory: %d MiB", peak>>20)
	if peak > connectionMemory && !testenv.Race {
		t.Errorf("the process used %d MiB, limit %d MiB", peak>>20, connectionMemory>>20)
	}
}

// needFiles fails the test if this process or the server may not open n files.
func needFiles(t *testing.T, n uint64) {
	t.Helper()
	var limit syscall.Rlimit
	testenv.OK(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	if limit.Max < n {
		t.Fatalf("this test needs %d file handles, but a process may open %d: raise the limit with ulimit -Hn", n, limit.Max)
	}
}

// transfer is one of many connections.
type transfer struct {
	*net.TCPConn
	name  string
	moved int64  // bytes of the body
	early []byte // bytes of the body that arrived with the head
}

// connect opens n connections and closes them when the test ends.
func connect(s *e2e.Server, n int) []*transfer {
	s.T.Helper()
	all := make([]*transfer, n)
	for i := range all {
		all[i] = &transfer{TCPConn: s.Dial()}
		// A small buffer in the client's kernel leaves the bytes to the server.
		testenv.OK(s.T, all[i].SetReadBuffer(128<<10))
	}
	return all
}

// each calls work for every connection, from a few goroutines. An error ends the test.
func each(t *testing.T, all []*transfer, work func(*transfer) error) {
	t.Helper()
	var workers sync.WaitGroup
	for w := range connectionWorkers {
		workers.Go(func() {
			for i := w; i < len(all); i += connectionWorkers {
				if err := errors.Join(all[i].SetDeadline(time.Now().Add(e2e.Patience)), work(all[i])); err != nil {
					t.Errorf("connection %d of %d: %v", i, len(all), err)
					return
				}
			}
		})
	}
	workers.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// Send sends a request's head.
func (c *transfer) Send(head string) error {
	_, err := io.WriteString(c, head)
	return err
}

// Body sends a request body's next bytes.
func (c *transfer) Body(b []byte) error {
	n, err := c.Write(b)
	c.moved += int64(n)
	return err
}

// head reads a response's head, which must have this status.
func (c *transfer) head(status string) error {
	c.early = nil
	buf := make([]byte, 4<<10)
	for got := 0; got < len(buf); {
		n, err := c.Read(buf[got:])
		if err != nil {
			return err
		}
		got += n
		if end := bytes.Index(buf[:got], []byte("\r\n\r\n")); end >= 0 {
			c.early = buf[end+4 : got]
			if !strings.HasPrefix(string(buf), "HTTP/1.1 "+status+" ") {
				return fmt.Errorf("got %.200q, want %s", buf[:got], status)
			}
			return nil
		}
	}
	return errors.New("the head of the response is too long")
}

// expect reads a response body's next bytes, which must be want.
func (c *transfer) expect(want []byte) error {
	got := make([]byte, 64<<10)
	for len(want) > 0 {
		n := copy(got, c.early)
		if c.early = c.early[n:]; n == 0 {
			var err error
			if n, err = c.Read(got[:min(len(got), len(want))]); err != nil {
				return err
			}
		}
		if n > len(want) || !bytes.Equal(got[:n], want[:n]) {
			return errors.New("the bytes differ")
		}
		want = want[n:]
		c.moved += int64(n)
	}
	return nil
}
