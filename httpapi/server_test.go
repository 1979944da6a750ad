package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/exchange/transfer"
	"sluice/test/testenv"
	"sluice/wire"
)

func TestDrainingServiceIsNotReady(t *testing.T) {
	s := newService(t, nil)
	_, body := s.want(t, 200, "GET", "/readyz", "")
	testenv.Equal(t, body, "ready\n", "the response of a service that is ready")
	s.Drain()
	if res, _ := s.refused(t, 503, wire.CodeDraining, "GET", "/readyz", ""); !res.Close {
		t.Error("the connection stays open")
	}
	s.want(t, 200, "GET", "/livez", "")
}

func TestSlowBodyIsRefused(t *testing.T) {
	s := newService(t, func(c *Config) { c.MinRate = transfer.MinRate{Bytes: 1 << 10, Window: 50 * time.Millisecond} })
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
	s.want(t, 404, "GET", "/v1/blobs/0x1/slow", "")
}

func TestDamageFoundBeforeTheFirstByteIsAnError(t *testing.T) {
	s := newService(t, nil)
	s.do(t, "PUT", "/v1/blobs/0x1/n", strings.Repeat("x", 1<<20))
	s.loseExtent(t, "0x1", "n", 0)
	res, _ := s.refused(t, 500, wire.CodeDamaged, "GET", "/v1/blobs/0x1/n", "", "Range", "bytes=1-2")
	for _, name := range blobHeaders {
		if got := res.Header.Get(name); got != "" && name != "Content-Type" && name != "Content-Length" {
			t.Errorf("%s: %s in an error response", name, got)
		}
	}
	if !strings.Contains(s.logged(), "level=ERROR") {
		t.Error("it is not logged")
	}
}

// Invariant 8.
func TestDamageFoundLaterCutsTheConnection(t *testing.T) {
	s := newService(t, nil)
	s.do(t, "PUT", "/v1/blobs/0x1/n", strings.Repeat("x", 6<<20))
	s.loseExtent(t, "0x1", "n", 1)
	if _, body, err := s.try(t, "GET", "/v1/blobs/0x1/n", ""); err == nil {
		t.Errorf("a body of %d bytes looks complete", len(body))
	}
}

func TestPanicIsAnError(t *testing.T) {
	s := newService(t, func(c *Config) {
		c.Ready = func(context.Context) error { panic("boom") }
	})
	_, body := s.refused(t, 500, wire.CodeInternal, "GET", "/readyz", "")
	if log := s.logged(); !strings.Contains(log, "boom") || strings.Contains(body, "boom") {
		t.Errorf("response %s, log %s", body, log)
	}
}

func TestConcurrentRequestsOfOneIdempotencyKeyHaveOneEffect(t *testing.T) {
	s := newService(t, nil)
	use := "/v1/sessions/" + s.newSession(t) + "/use"
	var workers sync.WaitGroup
	lefts := make([]string, 20)
	for i := range lefts {
		workers.Go(func() {
			res, _ := s.do(t, "POST", use, "", wire.HeaderIdempotencyKey, "k")
			lefts[i] = fmt.Sprintf("%d %s", res.StatusCode, res.Header.Get(wire.HeaderChunksetsLeft))
		})
	}
	workers.Wait()
	for _, left := range lefts {
		if left != "200 999" {
			t.Errorf("got %q", left)
		}
	}
	s.refused(t, 422, wire.CodeIdempotencyReuse, "POST", use, "{}", wire.HeaderIdempotencyKey, "k")
}

// TestUnreadBodyIsNotAwaitedForEver: a client that announces a body and does not send it cannot
// delay a response forever, even if the body has no meaning.
func TestUnreadBodyIsNotAwaitedForEver(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *Config) { c.MinRate = transfer.MinRate{Bytes: 1 << 10, Window: 50 * time.Millisecond} })
	s.do(t, "PUT", "/v1/blobs/0x1/large", strings.Repeat("x", 1<<20))
	for _, target := range []string{"GET /livez", "GET /v1/blobs/0x1/large", "GET /nowhere", "DELETE /v1/blobs/0x1/n", "PUT /livez"} {
		conn := dial(t, s.addr)
		conn.send(t, target+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
}
