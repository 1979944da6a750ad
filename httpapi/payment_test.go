package httpapi

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/access"
	"sluice/database"
	"sluice/internal/connlimit"
	"sluice/ledger"
	"sluice/test/testenv"
	"sluice/wire"
)

// paidService is a local service with paid reads, a session of 100 chunksets and a blob.
type paidService struct {
	*service
	*testing.T
	store   *failingMeta
	session string
}

func newPaidService(t *testing.T) *paidService {
	t.Helper()
	p := &paidService{T: t, store: &failingMeta{}, session: "session"}
	p.service = start(t, setup{around: p.store.around, config: func(c *Config) { c.Reads = access.ReadsPaid }})
	_, err := p.meta.CreateSession(t.Context(), ledger.Session{ID: p.session, Total: 100, Left: 100, Expires: time.Now().Add(time.Hour)}, nil)
	testenv.OK(t, err)
	p.want(t, 204, "PUT", "/v1/blobs/0x1/b", strings.Repeat("x", 100))
	return p
}

// checkLeft makes all pending returns and checks how many chunksets the session has left.
func (p *paidService) checkLeft(want int64) {
	p.Helper()
	for p.returns.Pending() > 0 && p.Context().Err() == nil {
		p.returns.Replay(p.Context())
	}
	if s, err := p.meta.Session(p.Context(), p.session); err != nil || s.Left != want {
		p.Errorf("%d chunksets left, %v; want %d", s.Left, err, want)
	}
}

// TestReadWithUnknownChargeIsNotServed checks that a read sends no byte and gets its chunksets back
// if the charge's outcome is unknown.
func TestReadWithUnknownChargeIsNotServed(t *testing.T) {
	p := newPaidService(t)
	p.store.fail(database.ErrUnknownOutcome)
	p.refused(t, 503, wire.CodeOutcomeUnknown, "GET", "/v1/blobs/0x1/b", "", wire.HeaderSessionID, p.session)
	p.checkLeft(100)
}

// TestDamagedPaidReadIsReturned checks that a paid read of damaged bytes is charged for each
// chunkset that it has begun to send, and for nothing if it has sent nothing.
// Invariant 117.
func TestDamagedPaidReadIsReturned(t *testing.T) {
	p := newPaidService(t)
	p.do(t, "PUT", "/v1/blobs/0x1/n", strings.Repeat("x", 6<<20))
	p.loseExtent(t, "0x1", "n", 1)
	if _, got, err := p.try(t, "GET", "/v1/blobs/0x1/n", "", wire.HeaderSessionID, p.session); err == nil {
		t.Fatalf("an incomplete body of %d bytes looks complete", len(got))
	}
	p.checkLeft(99)
	// The damage is recorded by now, so the next read of it is refused before it is charged.
	p.refused(t, 500, wire.CodeDamaged, "GET", "/v1/blobs/0x1/n", "", wire.HeaderSessionID, p.session)
	p.checkLeft(99)
	if res, _, err := p.try(t, "GET", "/v1/blobs/0x1/n", "", wire.HeaderSessionID, p.session, "Range", "bytes=5-9"); err != nil || res.StatusCode != 206 {
		t.Errorf("a range that is not damaged: %v, %v", res, err)
	}
	p.checkLeft(98)

	p.do(t, "PUT", "/v1/blobs/0x1/n", strings.Repeat("y", 1<<20))
	p.loseExtent(t, "0x1", "n", 0)
	p.refused(t, 500, wire.CodeDamaged, "GET", "/v1/blobs/0x1/n", "", wire.HeaderSessionID, p.session)
	p.checkLeft(98)
}

// TestLostPaidReadIsReturned checks that a paid read gets its chunksets back if no byte left the
// process, however small its response is, and that its log line has the error.
// Invariant 25.
func TestLostPaidReadIsReturned(t *testing.T) {
	p := newPaidService(t)
	fail := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		testenv.Check(t, connlimit.FromContext(r.Context()).CloseWrite())
		p.ServeHTTP(w, r)
	})
	failing := p.ServerOf(p.Server)
	failing.Handler = fail
	lossy := serve(t, failing, newConnections(10))
	left := int64(100)
	for name, tc := range map[string]struct {
		size   int
		header string
	}{
		"a byte": {size: 1}, "4 KiB": {size: 4 << 10}, "16 KiB": {size: 16 << 10}, "a file": {size: 100 << 10},
		"a range": {4 << 10, "Range: bytes=1-1\r\n"}, "ranges": {4 << 10, "Range: bytes=1-1,10-20\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p.want(t, 204, "PUT", "/v1/blobs/0x1/lost", strings.Repeat("x", tc.size))
			errorLines := strings.Count(p.logged(), "error=")
			request := "GET /v1/blobs/0x1/lost HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nSession-Id: " + p.session + "\r\n" + tc.header + "\r\n"
			for addr, lost := range map[string]bool{lossy: true, p.addr: false} {
				conn := dial(t, addr)
				conn.send(t, request)
				got, err := io.ReadAll(conn.r)
				if err != nil || (len(got) == 0) != lost {
					t.Fatalf("received %d bytes, %v", len(got), err)
				}
			}
			for strings.Count(p.logged(), "error=") == errorLines && t.Context().Err() == nil {
				runtime.Gosched() // until the lost read's handler has ended
			}
			left-- // by the read that was not lost
			p.checkLeft(left)
		})
	}
}
