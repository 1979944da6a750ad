package nodes

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// dialFrom opens a connection from a local address, or from any if it is empty, and closes it when
// the test ends.
func dialFrom(s *e2e.Server, address string) net.Conn {
	s.T.Helper()
	dialer := net.Dialer{}
	if address != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(address)}
	}
	connection, err := dialer.DialContext(s.T.Context(), "tcp", s.Host)
	testenv.OK(s.T, err)
	s.T.Cleanup(func() {
		if err := connection.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.T.Error(err)
		}
	})
	testenv.OK(s.T, connection.SetDeadline(time.Now().Add(e2e.Patience)))
	return connection
}

// ask sends a request without a body from a local address, on a new connection. The lines are
// additional headers, each with its CRLF.
func ask(s *e2e.Server, address, method, target, lines string) e2e.Response {
	s.T.Helper()
	connection := dialFrom(s, address)
	s.Write(connection, method+" "+s.Base+target+" HTTP/1.1\r\nHost: blobs.example.org\r\nConnection: close\r\n"+lines+"\r\n")
	return s.Answer(connection, method)
}

// hold begins a download and does not read it, so the request stays in progress until the test
// closes the connection. The blob must be much larger than all buffers on the way.
func hold(s *e2e.Server, address, target, lines string) net.Conn {
	s.T.Helper()
	connection := dialFrom(s, address)
	s.Write(connection, "GET "+s.Base+target+" HTTP/1.1\r\nHost: blobs.example.org\r\n"+lines+"\r\n")
	if _, err := io.ReadFull(connection, make([]byte, len("HTTP/1.1 200"))); err != nil {
		s.T.Fatal(err)
	}
	return connection
}

// heldSize is larger than all buffers on the way.
const heldSize = 48 << 20

// TestRatesAreReported checks that /v1/info and the response headers announce the limits in force.
func TestRatesAreReported(t *testing.T) {
	t.Parallel()
	s := e2e.StartHosted(t, "public", "--key-limits", "requests-per-second=unlimited,bytes-in-per-second=3MiB,bytes-out-per-second=4MB,concurrent-requests=7,stored-bytes=1GiB,open-uploads=9,stored-objects=1000,channels=5",
		"--address-limits", "requests-per-second=11,bytes-in-per-second=unlimited,concurrent-requests=13")
	var facts struct {
		Rates struct{ Key, Address map[string]int64 }
	}
	r := s.Must(200, "GET", "/v1/info", nil)
	r.Decode(t, &facts)
	want := "map[bytesInPerSecond:3145728 bytesOutPerSecond:4000000 channels:5 concurrentRequests:7 occupiedBytes:4294967296 openUploads:9 storedBytes:1073741824 storedObjects:1000] " +
		"map[bytesOutPerSecond:33554432 concurrentRequests:13 requestsPerSecond:11]"
	if got := fmt.Sprint(facts.Rates.Key, facts.Rates.Address); got != want {
		t.Errorf("the limits in /v1/info are %s, want %s", got, want)
	}
	for _, test := range []struct {
		at     *e2e.Server
		policy string
		limit  bool
	}{
		{s, `"requests";q=11;w=1, "bytes-out";q=33554432;w=1;qu="content-bytes"`, true},
		{s.AsAdmin(), `"bytes-in";q=3145728;w=1;qu="content-bytes", "bytes-out";q=4000000;w=1;qu="content-bytes"`, false},
		{s.As(s.NewKey("--scopes", "read", "--accounts", "bob", "--bytes-in-per-second", "1KiB", "--bytes-out-per-second", "unlimited")),
			`"bytes-in";q=1024;w=1;qu="content-bytes"`, false},
	} {
		for _, target := range []string{"/v1/info", e2e.BlobTarget("bob", "absent"), "/v1/nothing"} {
			r := test.at.Do("GET", target, nil)
			if got := r.Header.Get("RateLimit-Policy"); got != test.policy {
				t.Errorf("%s: RateLimit-Policy is %q, want %q", target, got, test.policy)
			}
			if got := r.Header.Get("RateLimit"); (got != "") != test.limit {
				t.Errorf("%s: RateLimit is %q", target, got)
			}
		}
	}
}
