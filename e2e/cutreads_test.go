package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestCutReads cuts paid responses of five chunksets. The server must return the unsent chunksets
// once, and the client continues by range.
func TestCutReads(t *testing.T) {
	t.Parallel()
	data := content(1, 5*chunksetSize)
	for _, test := range []struct {
		name     string
		flag     string
		partSize int
	}{
		{"blob of one part", "", 0},
		{"blob of many parts", "", 5 << 20},
		{"blob verified on each read", "--verify-ttl=0", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := options{flags: []string{"--reads", "paid", "--chunkset-price", strconv.Itoa(cutPrice)}}
			if test.flag != "" {
				o.flags = append(o.flags, test.flag)
			}
			s := start(t, o)
			if test.partSize == 0 {
				s.must(204, "PUT", blobTarget("0x1", "cut"), data)
			} else {
				s.upload("0x1", "cut", data, test.partSize)
			}
			s.cutReads(blobTarget("0x1", "cut"), data, s.readSome)
		})
	}
}

const cutPrice = 3

// cutReads cuts reads from a blob of five chunksets. readSome reads n bytes.
func (s *server) cutReads(target string, data []byte, readSome func(target string, n int, h ...string) []byte) {
	const price = cutPrice
	t := s.t
	c := s.open(s.payer(1), 1000)
	id := c.buy(100 * price).SessionID

	// In the first and in the second chunkset, far enough from its end that none of the
	// connection's buffers reaches into the next one.
	sum := sha256.New()
	sum.Write(readSome(target, 1<<20, "Session-Id", id))
	s.eventually("four untouched chunksets are not returned", func() bool { return s.left(id) == "99" })
	sum.Write(readSome(target, 11<<20, "Session-Id", id, "Range", "bytes=1048576-"))
	s.eventually("three untouched chunksets are not returned", func() bool { return s.left(id) == "97" })
	rest := s.must(206, "GET", target, nil, "Session-Id", id, "Range", fmt.Sprintf("bytes=%d-", 12<<20))
	checkPaid(t, rest, "4", "93")
	sum.Write(rest.body)
	if whole := sha256.Sum256(data); !bytes.Equal(sum.Sum(nil), whole[:]) {
		t.Error("a cut read's parts are not the blob")
	}
	// The server sends ranges as the request orders them, here the third chunkset before the first
	// two.
	readSome(target, 1<<20, "Session-Id", id, "Range", fmt.Sprintf("bytes=%d-%d,0-%d", 2*chunksetSize+1, 3*chunksetSize-1, 2*chunksetSize-1))
	s.eventually("two untouched chunksets of another range are not returned", func() bool { return s.left(id) == "92" })

	readSome(target, 1<<20, "X-Shelby-Micropayment", c.next(5*price+1))
	want := fmt.Sprintf("deposit 1000 accepted %d credit %d sequence 2 open", 105*price+1, 4*price+1)
	s.eventually("the price of four untouched chunksets is not returned", func() bool { return c.state().money() == want })
	// The credit and one additional unit pay for the next read.
	checkPaid(t, s.must(200, "GET", target, nil, "X-Shelby-Micropayment", c.next(price-1)), "5", "0")

	// The server has returned each chunkset once, and no return is pending.
	s.stop()
	s.restart()
	if left := s.left(id); left != "92" {
		t.Errorf("%s chunksets left after a restart, want 92", left)
	}
	if got, want := c.state().money(), fmt.Sprintf("deposit 1000 accepted %d credit 0 sequence 3 open", 106*price); got != want {
		t.Errorf("the channel is %q after a restart, want %q", got, want)
	}
}

// readSome reads n bytes from a response and cuts the connection.
func (s *server) readSome(target string, n int, h ...string) []byte {
	s.t.Helper()
	connection, some := s.readBegun(target, n, h...)
	if err := connection.SetLinger(0); err != nil {
		s.t.Fatal(err)
	}
	if err := connection.Close(); err != nil {
		s.t.Fatal(err)
	}
	return some
}

// readBegun reads n bytes from a response on a new connection with small buffers.
func (s *server) readBegun(target string, n int, h ...string) (*net.TCPConn, []byte) {
	s.t.Helper()
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
	connection, err := dialer.Dial("tcp", s.host)
	if err != nil {
		s.t.Fatal(err)
	}
	once := &http.Client{Transport: &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return connection, nil },
		DisableKeepAlives:  true,
		DisableCompression: true,
	}}
	req, err := s.request("GET", target, nil, h)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := once.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	some := make([]byte, n)
	if _, err := io.ReadFull(resp.Body, some); err != nil {
		s.t.Fatalf("%d: %v", resp.StatusCode, err)
	}
	return connection.(*net.TCPConn), some
}

// TestCutByShutdown checks a paid response that the drain deadline cuts: it costs only what the
// server has sent, as when the client cuts it.
func TestCutByShutdown(t *testing.T) {
	t.Parallel()
	s := start(t, options{dirty: true, flags: []string{"--reads", "paid", "--drain-deadline", "200ms"}})
	target := blobTarget("0x1", "cut")
	s.must(204, "PUT", target, content(1, 5*chunksetSize))
	c := s.open(s.payer(1), 1000)
	id := c.buy(100).SessionID
	bySession, _ := s.readBegun(target, 1<<20, "Session-Id", id)
	byMicropayment, _ := s.readBegun(target, 1<<20, "X-Shelby-Micropayment", c.next(5))
	s.signal(syscall.SIGTERM)
	s.wait()
	for _, connection := range []net.Conn{bySession, byMicropayment} {
		if err := connection.Close(); err != nil {
			t.Error(err)
		}
	}
	s.restart()
	if left := s.left(id); left != "99" {
		t.Errorf("%s chunksets left after one of five was sent, want 99", left)
	}
	if got := c.state().money(); got != "deposit 1000 accepted 105 credit 4 sequence 2 open" {
		t.Errorf("the channel is %q after one of five was sent", got)
	}
}

// TestReturnsAreReplayedAtTheStart leaves the file with returns that a process could not make
// before it ended. The next process makes them once, before it serves.
func TestReturnsAreReplayedAtTheStart(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--reads", "paid"}})
	c := s.open(s.payer(1), 1000)
	id := c.buy(10).SessionID
	s.must(200, "POST", "/v1/sessions/"+id+"/use", nil)
	s.must(200, "POST", "/v1/sessions/"+id+"/use", nil)
	s.stop()
	folder := filepath.Join(s.data, "returns")
	left := asJSON(t, []any{map[string]any{"since": time.Now(), "name": "NAME", "count": 2, "session": id}})
	if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, "ONE.json"), left, 0o600)); err != nil {
		t.Fatal(err)
	}
	s.restart()
	if got := s.left(id); got != "10" {
		t.Errorf("%s chunksets left after the start, want 10", got)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 0 {
		t.Errorf("the folder still contains %v, %v", entries, err)
	}
	s.stop()
	// This is the state after a power cut between the return and the removal of its file.
	if err := os.WriteFile(filepath.Join(folder, "ONE.json"), left, 0o600); err != nil {
		t.Fatal(err)
	}
	s.restart()
	if got := s.left(id); got != "10" {
		t.Errorf("%s chunksets left after the second replay, want 10", got)
	}
}
