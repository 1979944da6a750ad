package httpapi

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"sluice/admin"
	"sluice/bytestore/memory"
	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/history"
	"sluice/test/testenv"
	"sluice/wire"
)

// openHistory returns the history of a node that was started after another one. Its Watch does not
// run, so it does not know whether it may write; or another database has taken over.
func openHistory(t *testing.T, passed bool) *history.History {
	t.Helper()
	open := func() *sqlstore.Store {
		meta := testenv.Must(sqlstore.OpenSQLite(testenv.MemoryDir(t)+"/meta.db", sqlstore.Options{}))(t)
		testenv.AtEnd(t, meta.Close)
		return meta
	}
	meta, bytes, shared := open(), memory.New(), history.Options{Shared: true}
	testenv.OK(t, testenv.Error(history.Open(t.Context(), meta, bytes, shared)))
	h := testenv.Must(history.Open(t.Context(), meta, bytes, shared))(t)
	if passed {
		testenv.Must(history.Recover(t.Context(), open(), bytes, database.KeptObjects{}))(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go h.Watch(ctx, func(error, error) {})
		testenv.Is(t, h.Await(ctx), history.ErrFenced, "after another database has taken over")
	}
	return h
}

// TestFencedNodeWritesNothing checks that each route that is not for reading is refused, before the
// body is read, by a node if another database uses its bytes, and that its reads are served.
// Invariant 94.
func TestFencedNodeWritesNothing(t *testing.T) {
	fenced := openHistory(t, true)
	s := newService(t, func(c *Config) { c.History, c.Faucet, c.Admin = fenced, true, &admin.Service{} })
	refused := 0
	for _, route := range routes(s.Server) {
		writes := route.Method != http.MethodGet && !strings.Contains(route.Pattern, "/faults")
		if route.Value.writes != writes {
			t.Errorf("%s %s is marked as a write: %t", route.Method, route.Pattern, route.Value.writes)
		}
		if !writes {
			continue
		}
		refused++
		path := strings.NewReplacer("{account}", "0x1", "{blobName...}", "n", "{sessionId}", "s", "{channelId}", "c", "{uploadId}", "u", "{partIdx}", "0", "{keyId}", "k", "{group}", "g", "{bucket}", "b").Replace(route.Pattern)
		// The body is announced and never sent.
		res, body := s.raw(t, route.Method+" "+path+" HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 100000\r\n\r\n")
		wantProblem(t, res, body, 503, wire.CodeNotReady)
		if res.Header.Get("Retry-After") == "" {
			t.Errorf("%s %s: no Retry-After", route.Method, path)
		}
	}
	if refused < 12 {
		t.Errorf("only %d routes were refused", refused)
	}
	s.want(t, 200, "GET", "/v1/blobs/0x1", "")
}

// TestWritesWaitForTheFence checks that a write waits while the fence does not know, that at most
// an eighth of the slots is taken by such writes, and that reads are served meanwhile.
// Invariant 95.
func TestWritesWaitForTheFence(t *testing.T) {
	t.Parallel()
	waits := openHistory(t, false)
	s := newService(t, func(c *Config) { c.History, c.MaxRequests = waits, 8 })
	conn := dial(t, s.addr)
	conn.send(t, "DELETE /v1/blobs/0x1/n HTTP/1.1\r\nHost: localhost\r\n\r\n")
	for s.Counts().Held == 0 {
		runtime.Gosched()
	}
	s.refused(t, 503, wire.CodeNotReady, "PUT", "/v1/blobs/0x1/n", "x")
	if n := s.Counts().Held; n != 1 {
		t.Errorf("%d writes wait, want 1 of 8 requests", n)
	}
	s.want(t, 200, "GET", "/v1/blobs/0x1", "")
	s.Drain() // which ends the wait within a second
	res, body := conn.receive(t)
	wantProblem(t, res, body, 503, wire.CodeDraining)
	if n := s.Counts().Held; n != 0 {
		t.Errorf("%d writes are still counted", n)
	}
}
