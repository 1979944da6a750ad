package http

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// refused is an upload that the service refuses, or the client cuts, while it sends the body.
type refused struct {
	name   string
	head   string // header lines
	prefix string // wait for a response before the body
	cut    bool   // the client closes the connection in the middle
	status int    // the refusal's status
}

// refusedUploads are uploads that the service refuses, in every framing.
var refusedUploads = []refused{
	{"chunks", "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", "200000\r\n", false, 415},
	{"a length", "Content-Encoding: gzip\r\nContent-Length: 2097152\r\n", "", false, 415},
	{"a length with Expect: 100-continue", "Content-Encoding: gzip\r\nExpect: 100-continue\r\nContent-Length: 2097152\r\n", "", false, 415},
	{"chunks with Expect: 100-continue", "Content-Encoding: gzip\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n", "200000\r\n", false, 415},
	{"chunks, refused and cut", "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", "200000\r\n", true, 415},
	{"a length, refused and cut", "Content-Encoding: gzip\r\nContent-Length: 2097152\r\n", "", true, 415},
	{"chunks, cut", "Transfer-Encoding: chunked\r\n", "200000\r\n", true, 400},
	{"a length, cut", "Content-Length: 2097152\r\n", "", true, 400},
}

// Send sends the upload and reads the refusal.
func (u refused) Send(s *e2e.Server) error {
	connection, err := net.Dial("tcp", s.Host)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	if err := connection.SetDeadline(time.Now().Add(e2e.Patience)); err != nil {
		return err
	}
	// Nginx may have closed the connection already; only the response matters.
	head := "PUT " + s.Base + e2e.BlobTarget("0x1", "refused") + " HTTP/1.1\r\nHost: localhost\r\n" + u.head + "\r\n" + u.prefix
	size := 2 << 20
	if u.cut {
		size = 1 << 20
	}
	if _, err := io.WriteString(connection, head+strings.Repeat("x", size/2)); err == nil {
		_, _ = io.WriteString(connection, strings.Repeat("x", size/2))
	}
	if u.cut {
		return nil
	}
	answers := bufio.NewReader(connection)
	r, err := e2e.ReadAnswer(answers, "PUT")
	if err == nil && r.Status == 100 {
		r, err = e2e.ReadAnswer(answers, "PUT")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", u.name, err)
	}
	if r.Status != u.status {
		return fmt.Errorf("%s: %v, want %d", u.name, r, u.status)
	}
	return nil
}

// TestRefusalsBehindNginx checks that many concurrent refused or cut uploads, in every framing, do
// not affect nginx's other clients. Nginx has the documented configuration, and so removes a node
// after one failed connection.
// Invariant 58.
func TestRefusalsBehindNginx(t *testing.T) {
	testenv.Require(t, testenv.Nginx)
	t.Parallel()
	c := e2e.NewCluster(t, e2e.Options{Flags: []string{"--base-path", e2e.HostedBase}})
	c.Start(3)
	s := c.Balanced(t)
	data := e2e.Content(1, 4096)
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "name"), data)

	ended := make(chan struct{})
	var others, served, failed atomic.Int64
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				others.Add(1)
				r, err := s.Try("GET", e2e.BlobTarget("0x1", "name"), nil)
				switch {
				case err != nil || r.Status != 200:
					if failed.Add(1) == 1 {
						t.Errorf("another client: %v, %v", r, err)
					}
				default:
					served.Add(1)
				}
			}
		})
	}
	var uploads sync.WaitGroup
	for worker := range 8 {
		uploads.Go(func() {
			for i := range 10 {
				if err := refusedUploads[(worker+i)%len(refusedUploads)].Send(s); err != nil {
					t.Error(err)
				}
			}
		})
	}
	uploads.Wait()
	close(ended)
	clients.Wait()
	t.Logf("during 80 uploads that were refused or cut, %d of %d other requests were served", served.Load(), others.Load())
	if others.Load() < 10 {
		t.Errorf("only %d requests of other clients were made during the uploads", others.Load())
	}
	if failed.Load() > 0 {
		t.Errorf("%d of %d requests of other clients failed", failed.Load(), others.Load())
	}
}
