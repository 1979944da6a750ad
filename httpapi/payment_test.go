package httpapi

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/whole"
	"sluice/internal/connlimit"
	"sluice/internal/testenv"
	"sluice/ledger"
	"sluice/wire"
)

// lossyStore makes charges and loses their results while lossy is set.
type lossyStore struct {
	whole.Database
	lossy atomic.Bool
}

func (s *lossyStore) ChargeSession(ctx context.Context, id string, n int64, charge string) (ledger.Session, error) {
	got, err := s.Database.ChargeSession(ctx, id, n, charge)
	if err == nil && s.lossy.Load() {
		return ledger.Session{}, database.ErrUnknownOutcome
	}
	return got, err
}

// paidService is a local service with paid reads, a session of 100 chunksets and a blob.
type paidService struct {
	*service
	*testing.T
	store   *lossyStore
	session string
}

func newPaidService(t *testing.T) *paidService {
	t.Helper()
	p := &paidService{T: t, session: "session"}
	p.service = startOver(t, func(m whole.Database) whole.Database {
		p.store = &lossyStore{Database: m}
		return p.store
	}, nil, func(c *Config, _ *Server) { c.Reads = ReadsPaid })
	_, err := p.meta.CreateSession(t.Context(), ledger.Session{ID: p.session, Total: 100, Left: 100, Expires: time.Now().Add(time.Hour)}, nil)
	testenv.OK(t, err)
	if res, body := p.do(t, "PUT", "/v1/blobs/0x1/b", strings.Repeat("x", 100)); res.StatusCode != http.StatusNoContent {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
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
	p.store.lossy.Store(true)
	res, body := p.do(t, "GET", "/v1/blobs/0x1/b", "", wire.HeaderSessionID, p.session)
	wantProblem(t, res, body, http.StatusServiceUnavailable, wire.CodeOutcomeUnknown)
	p.checkLeft(100)
}

// TestMissingPayer checks that a session that does not exist, also one with an empty id, is
// never reported as a missing blob.
func TestMissingPayer(t *testing.T) {
	p := newPaidService(t)
	for _, id := range []string{"", "none"} {
		res, body := p.do(t, "GET", "/v1/blobs/0x1/b", "", wire.HeaderSessionID, id)
		wantProblem(t, res, body, http.StatusPaymentRequired, wire.CodeSessionNotFound)
	}
	res, body := p.do(t, "GET", "/v1/blobs/0x1/b", "")
	wantProblem(t, res, body, http.StatusPaymentRequired, wire.CodePaymentRequired)
	res, body = p.do(t, "GET", "/v1/blobs/0x1/b", "", wire.HeaderSessionID, p.session, wire.HeaderMaxChunksets, "0")
	wantProblem(t, res, body, http.StatusPaymentRequired, wire.CodeChargeAboveLimit)
	p.checkLeft(100)
}

// TestDamagedPaidReadIsReturned checks that a paid read of damaged bytes is charged for each
// chunkset that it has begun to send, and for nothing if it has sent nothing.
func TestDamagedPaidReadIsReturned(t *testing.T) {
	p := newPaidService(t)
	p.do(t, "PUT", "/v1/blobs/0x1/n", strings.Repeat("x", 6<<20))
	p.loseExtent(t, "0x1", "n", 1)
	req, err := http.NewRequest("GET", p.url+"/v1/blobs/0x1/n", http.NoBody)
	testenv.OK(t, err)
	req.Header.Set(wire.HeaderSessionID, p.session)
	res, err := http.DefaultClient.Do(req)
	testenv.OK(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	closeOrFail(t, res.Body)
	if err == nil {
		t.Fatal("an incomplete body looks complete")
	}
	http.DefaultClient.CloseIdleConnections()
	p.checkLeft(99)

	p.do(t, "PUT", "/v1/blobs/0x1/n", strings.Repeat("y", 1<<20))
	p.loseExtent(t, "0x1", "n", 0)
	answer, body := p.do(t, "GET", "/v1/blobs/0x1/n", "", wire.HeaderSessionID, p.session)
	wantProblem(t, answer, body, http.StatusInternalServerError, wire.CodeInternal)
	p.checkLeft(99)
}

// TestLostPaidReadIsReturned checks that a paid read gets its chunksets back if no byte left the
// process, however small its response is, and that its log line has the error.
func TestLostPaidReadIsReturned(t *testing.T) {
	p := newPaidService(t)
	fail := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := connlimit.FromContext(r.Context()).CloseWrite(); err != nil {
			t.Error(err)
		}
		p.ServeHTTP(w, r)
	})
	addr := handlerUnderCap(t, p.service, fail, newConnections(10))
	intact := underCapOf(t, p.service, newConnections(10))
	left := int64(100)
	for name, tc := range map[string]struct {
		size   int
		header string
	}{
		"a byte": {size: 1}, "4 KiB": {size: 4 << 10}, "16 KiB": {size: 16 << 10}, "a file": {size: 100 << 10},
		"a range": {4 << 10, "Range: bytes=1-1\r\n"}, "ranges": {4 << 10, "Range: bytes=1-1,10-20\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if res, body := p.do(t, "PUT", "/v1/blobs/0x1/lost", strings.Repeat("x", tc.size)); res.StatusCode != http.StatusNoContent {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			errorLines := strings.Count(p.logged(), "error=")
			request := "GET /v1/blobs/0x1/lost HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nSession-Id: " + p.session + "\r\n" + tc.header + "\r\n"
			for addr, lost := range map[string]bool{addr: true, intact: false} {
				conn := dialSender(t, addr)
				send(t, conn, request)
				got, err := io.ReadAll(conn.r)
				closeOrFail(t, conn)
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
