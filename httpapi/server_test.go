package httpapi

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/httpapi/internal/transfer"
	"sluice/internal/testenv"

	"github.com/go-json-experiment/json"

	"sluice/bytestore"
	"sluice/wire"
)

func TestDrainingServiceIsNotReady(t *testing.T) {
	s := newService(t, nil)
	if res, body := s.do(t, "GET", "/readyz", ""); res.StatusCode != http.StatusOK || body != "ready\n" {
		t.Fatalf("%d %q", res.StatusCode, body)
	}
	s.Drain()
	res, body := s.do(t, "GET", "/readyz", "")
	wantProblem(t, res, body, http.StatusServiceUnavailable, wire.CodeDraining)
	if !res.Close {
		t.Error("the connection stays open")
	}
	if res, _ := s.do(t, "GET", "/livez", ""); res.StatusCode != http.StatusOK {
		t.Errorf("livez: %d", res.StatusCode)
	}
}

func TestServiceThatCannotServeIsNotReady(t *testing.T) {
	s := newService(t, func(c *Config, _ *Server) {
		c.Ready = func(context.Context) error { return bytestore.ErrNoSpace }
	})
	res, body := s.do(t, "GET", "/readyz", "")
	wantProblem(t, res, body, http.StatusServiceUnavailable, wire.CodeNotReady)
	if !strings.Contains(s.logged(), bytestore.ErrNoSpace.Error()) {
		t.Error("the log does not say why")
	}
}

func TestSlowBodyIsRefused(t *testing.T) {
	s := newService(t, func(_ *Config, s *Server) {
		if s != nil {
			s.minRate = transfer.MinRate{Bytes: 1 << 10, Window: 50 * time.Millisecond}
		}
	})
	for _, request := range []string{
		"PUT /v1/blobs/0x1/slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nxx",
		"POST /v1/multipart-uploads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
	} {
		res, body := s.raw(t, request)
		wantProblem(t, res, body, http.StatusRequestTimeout, wire.CodeBodyTooSlow)
		if !res.Close {
			t.Error("the connection stays open")
		}
	}
	if res, _ := s.do(t, "GET", "/v1/blobs/0x1/slow", ""); res.StatusCode != http.StatusNotFound {
		t.Errorf("the slow body was stored: %d", res.StatusCode)
	}
}

func TestDamageFoundBeforeTheFirstByteIsAnError(t *testing.T) {
	s := newService(t, nil)
	s.do(t, "PUT", "/v1/blobs/0x1/n", strings.Repeat("x", 1<<20))
	s.loseExtent(t, "0x1", "n", 0)
	res, body := s.do(t, "GET", "/v1/blobs/0x1/n", "", "Range", "bytes=1-2")
	wantProblem(t, res, body, http.StatusInternalServerError, wire.CodeInternal)
	for _, name := range blobHeaders {
		if got := res.Header.Get(name); got != "" && name != "Content-Type" && name != "Content-Length" {
			t.Errorf("%s: %s in an error response", name, got)
		}
	}
	if !strings.Contains(s.logged(), "level=ERROR") {
		t.Error("it is not logged")
	}
}

func TestDamageFoundLaterCutsTheConnection(t *testing.T) {
	s := newService(t, nil)
	s.do(t, "PUT", "/v1/blobs/0x1/n", strings.Repeat("x", 6<<20))
	s.loseExtent(t, "0x1", "n", 1)
	res, err := http.Get(s.url + "/v1/blobs/0x1/n")
	testenv.OK(t, err)
	n, err := io.Copy(io.Discard, res.Body)
	closeOrFail(t, res.Body)
	if err == nil {
		t.Fatalf("a body of %d bytes looks complete", n)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestPanicIsAnError(t *testing.T) {
	s := newService(t, func(c *Config, _ *Server) {
		c.Ready = func(context.Context) error { panic("boom") }
	})
	res, body := s.do(t, "GET", "/readyz", "")
	wantProblem(t, res, body, http.StatusInternalServerError, wire.CodeInternal)
	if log := s.logged(); !strings.Contains(log, "boom") || strings.Contains(body, "boom") {
		t.Errorf("response %s, log %s", body, log)
	}
}

func TestConcurrentRequestsOfOneIdempotencyKeyHaveOneEffect(t *testing.T) {
	s := newService(t, nil)
	_, body := s.do(t, "POST", "/v1/sessions", "")
	var made wire.Session
	testenv.OK(t, json.Unmarshal([]byte(body), &made))
	var workers sync.WaitGroup
	lefts := make([]string, 20)
	for i := range lefts {
		workers.Go(func() {
			res, _ := s.do(t, "POST", "/v1/sessions/"+made.SessionID+"/use", "", wire.HeaderIdempotencyKey, "k")
			lefts[i] = fmt.Sprintf("%d %s", res.StatusCode, res.Header.Get(wire.HeaderChunksetsLeft))
		})
	}
	workers.Wait()
	for _, left := range lefts {
		if left != "200 999" {
			t.Errorf("got %q", left)
		}
	}
	res, body := s.do(t, "POST", "/v1/sessions/"+made.SessionID+"/use", "{}", wire.HeaderIdempotencyKey, "k")
	wantProblem(t, res, body, http.StatusUnprocessableEntity, wire.CodeIdempotencyReuse)
}

// TestUnreadBodyIsNotAwaitedForEver: a client that announces a body and does not send it cannot
// delay a response forever, even if the body has no meaning.
func TestUnreadBodyIsNotAwaitedForEver(t *testing.T) {
	t.Parallel()
	s := newService(t, func(_ *Config, s *Server) {
		if s != nil {
			s.minRate = transfer.MinRate{Bytes: 1 << 10, Window: 50 * time.Millisecond}
		}
	})
	s.do(t, "PUT", "/v1/blobs/0x1/large", strings.Repeat("x", 1<<20))
	for _, target := range []string{"GET /livez", "GET /v1/blobs/0x1/large", "GET /nowhere", "DELETE /v1/blobs/0x1/n", "PUT /livez"} {
		conn, err := net.Dial("tcp", s.addr)
		testenv.OK(t, err)
		if _, err := io.WriteString(conn, target+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		// The test's timeout detects a connection that is never closed.
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("%s: %v", target, err)
		}
		closeOrFail(t, conn)
	}
}
