package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	"sluice/test/testenv"
)

// CutPrice is the chunksets that a read costs in CutReads.
const CutPrice = 3

// CutReads cuts reads from a blob of five chunksets. readSome reads n bytes.
func (s *Server) CutReads(target string, data []byte, readSome func(target string, n int, h ...string) []byte) {
	const price = CutPrice
	t := s.T
	c := s.Open(s.Payer(1), 1000)
	id := c.Buy(100 * price).SessionID

	// In the first and in the second chunkset, far enough from its end that none of the
	// connection's buffers reaches into the next one.
	sum := sha256.New()
	sum.Write(readSome(target, 1<<20, "Session-Id", id))
	s.Eventually("four untouched chunksets are not returned", func() bool { return s.Left(id) == "99" })
	sum.Write(readSome(target, 11<<20, "Session-Id", id, "Range", "bytes=1048576-"))
	s.Eventually("three untouched chunksets are not returned", func() bool { return s.Left(id) == "97" })
	rest := s.Must(206, "GET", target, nil, "Session-Id", id, "Range", fmt.Sprintf("bytes=%d-", 12<<20))
	CheckPaid(t, rest, "4", "93")
	sum.Write(rest.Body)
	if whole := sha256.Sum256(data); !bytes.Equal(sum.Sum(nil), whole[:]) {
		t.Error("a cut read's parts are not the blob")
	}
	// The server sends ranges as the request orders them, here the third chunkset before the first
	// two.
	readSome(target, 1<<20, "Session-Id", id, "Range", fmt.Sprintf("bytes=%d-%d,0-%d", 2*ChunksetSize+1, 3*ChunksetSize-1, 2*ChunksetSize-1))
	s.Eventually("two untouched chunksets of another range are not returned", func() bool { return s.Left(id) == "92" })

	readSome(target, 1<<20, "X-Shelby-Micropayment", c.Next(5*price+1))
	want := fmt.Sprintf("deposit 1000 accepted %d credit %d sequence 2 open", 105*price+1, 4*price+1)
	s.Eventually("the price of four untouched chunksets is not returned", func() bool { return c.State().Money() == want })
	// The credit and one additional unit pay for the next read.
	CheckPaid(t, s.Must(200, "GET", target, nil, "X-Shelby-Micropayment", c.Next(price-1)), "5", "0")

	// The server has returned each chunkset once, and no return is pending.
	s.Stop()
	s.Restart()
	if left := s.Left(id); left != "92" {
		t.Errorf("%s chunksets left after a restart, want 92", left)
	}
	if got, want := c.State().Money(), fmt.Sprintf("deposit 1000 accepted %d credit 0 sequence 3 open", 106*price); got != want {
		t.Errorf("the channel is %q after a restart, want %q", got, want)
	}
}

// ReadSome reads n bytes from a response and cuts the connection.
func (s *Server) ReadSome(target string, n int, h ...string) []byte {
	s.T.Helper()
	connection, some := s.ReadBegun(target, n, h...)
	testenv.OK(s.T, connection.SetLinger(0))
	testenv.OK(s.T, connection.Close())
	return some
}

// ReadBegun reads n bytes from a response on a new connection with small buffers.
func (s *Server) ReadBegun(target string, n int, h ...string) (*net.TCPConn, []byte) {
	s.T.Helper()
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			failed = setReceiveBuffer(fd, 64<<10)
		})
		if err != nil {
			return err
		}
		return failed
	}}
	connection, err := dialer.Dial("tcp", s.Host)
	testenv.OK(s.T, err)
	once := &http.Client{Transport: &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return connection, nil },
		DisableKeepAlives:  true,
		DisableCompression: true,
	}}
	req, err := s.Request("GET", target, nil, h)
	testenv.OK(s.T, err)
	resp, err := once.Do(req)
	testenv.OK(s.T, err)
	some := make([]byte, n)
	if _, err := io.ReadFull(resp.Body, some); err != nil {
		s.T.Fatalf("%d: %v", resp.StatusCode, err)
	}
	return connection.(*net.TCPConn), some
}
