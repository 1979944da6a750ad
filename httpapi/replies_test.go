package httpapi

import (
	"net/http/httptest"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/exchange"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestUnreadPagesCountForTheirCaller holds a caller's memory: its next page is refused, other
// requests of it are served, and so are pages of other callers.
// Invariant 75.
func TestUnreadPagesCountForTheirCaller(t *testing.T) {
	t.Parallel()
	h := newHosted(t, access.ReadsPublic, access.ScopeRead, limited(keys.Limits{ConcurrentRequests: 64}))
	unread, end := h.admitted(t, "127.0.0.1:1")
	testenv.OK(t, unread.HoldReply(exchange.CallerReplies))
	h.refused(t, 429, wire.CodeTooManyAtOnce, "GET", "/v1/blobs/ours", "")
	h.want(t, 200, "GET", "/v1/info", "")
	h.want(t, 200, "GET", "/v1/blobs/ours", "", h.right.headers...)
	end()
	h.want(t, 200, "GET", "/v1/blobs/ours", "")
}

// pieces records the longest write, and how many deadlines there were.
type pieces struct {
	streamRecorder
	longest, deadlines int
}

func (p *pieces) SetWriteDeadline(time.Time) error {
	p.deadlines++
	return nil
}

func (p *pieces) Write(b []byte) (int, error) {
	p.longest = max(p.longest, len(b))
	return p.streamRecorder.Write(b)
}

// TestPagesAreSentInPieces: a client that reads nothing keeps a page for a piece's time, and not
// for the time that the whole page may take.
func TestPagesAreSentInPieces(t *testing.T) {
	s := newService(t, nil)
	longBlobs(t, s, 100)
	w := &pieces{streamRecorder: streamRecorder{httptest.NewRecorder()}}
	s.ServeHTTP(w, httptest.NewRequest("GET", s.url+"/v1/blobs/ours?include=metadata", nil))
	size := w.Body.Len()
	if w.Code != 200 || size < 10*exchange.ReplyPiece {
		t.Fatalf("%d: %d bytes", w.Code, size)
	}
	if most := int(s.MinRate().BytesPerSecond()) * 33; w.longest > most || w.deadlines < size/most {
		t.Errorf("%d bytes are sent in pieces of up to %d, with %d deadlines; want at most %d at a time", size, w.longest, w.deadlines, most)
	}
}
