package httpapi

import (
	"context"
	"errors"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/internal/testenv"
	"sluice/wire"
)

// TestReplyMemoryIsBounded fills the memory for replies: a caller gets its share and not more,
// callers without a key leave a quarter, and what waits is admitted in order when memory is free
// again.
func TestReplyMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newReplies(80)
		limiter := access.NewLimiter(access.LimiterOptions{Address: keys.Limits{ConcurrentRequests: 10}})
		callers := make([]*access.Allowance, 6)
		for i := range callers {
			callers[i] = limiter.OfAddress(netip.AddrFrom4([4]byte{byte(i)}))
		}
		const piece = callerReplies / 4
		ask := func(caller int, anonymous bool) (*reply, error) {
			r := &reply{of: s, caller: callers[caller], anonymous: anonymous, size: piece}
			return r, s.acquire(t.Context(), r)
		}
		refused := func(caller int, anonymous bool, want error) {
			t.Helper()
			began := time.Now()
			if _, err := ask(caller, anonymous); !errors.Is(err, want) || time.Since(began) != repliesWait {
				t.Errorf("caller %d: %v after %v, want %v", caller, err, time.Since(began), want)
			}
		}
		var all []*reply
		fill := func(caller int, anonymous bool) {
			t.Helper()
			for range 4 {
				r := testenv.Must(ask(caller, anonymous))(t)
				all = append(all, r)
			}
		}
		for caller := range 3 {
			fill(caller, true)
			refused(caller, true, access.ErrConcurrent)
		}
		refused(3, true, errTooBusy)
		fill(4, false)
		refused(5, false, errTooBusy)
		if got := s.held(); got != repliesMemory {
			t.Errorf("%d bytes are held, want %d", got, repliesMemory)
		}

		// As many as may wait do, and no more. A caller that has its share holds up no other.
		waiting := make(chan int, 20)
		for i := range s.maxWaiting {
			go func() {
				if r, err := ask(i%2*4, i%2 == 0); err == nil { // of caller 0 without a key, of 4 with one
					waiting <- i % 2
					s.resize(r, 0)
				}
			}()
			synctest.Wait()
		}
		began := time.Now()
		if _, err := ask(5, false); !errors.Is(err, errTooBusy) || time.Since(began) != 0 {
			t.Errorf("a reply while as many wait as may: %v after %v", err, time.Since(began))
		}
		s.resize(all[15], 0) // of caller 4
		synctest.Wait()
		if len(waiting) != s.maxWaiting/2 {
			t.Errorf("%d replies of caller 4 were admitted, want %d", len(waiting), s.maxWaiting/2)
		}
		for range len(waiting) {
			if <-waiting != 1 {
				t.Error("a reply of caller 0 was admitted, which has its share")
			}
		}
		time.Sleep(2 * repliesWait) // the others are refused
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		gone := &reply{of: s, caller: callers[0], anonymous: true, size: piece}
		if err := s.acquire(ctx, gone); !errors.Is(err, context.Canceled) {
			t.Errorf("a client that has gone: %v", err)
		}
		for _, r := range all {
			s.resize(r, 0)
		}
		if s.held() != 0 || s.anonymous != 0 || len(s.callers) != 0 || s.waiting.Len() != 0 {
			t.Errorf("after all have ended: %d bytes, %d without a key, %d callers, %d wait", s.held(), s.anonymous, len(s.callers), s.waiting.Len())
		}
		huge := &reply{of: s, caller: callers[0], size: 2 * repliesMemory}
		if err := s.acquire(t.Context(), huge); err != nil {
			t.Errorf("a reply that is larger than all memory, alone: %v", err)
		}
	})
}

// TestUnreadPagesCountForTheirCaller holds a caller's memory: its next page is refused, other
// requests of it are served, and so are pages of other callers.
func TestUnreadPagesCountForTheirCaller(t *testing.T) {
	t.Parallel()
	h := newHosted(t, ReadsPublic, access.ScopeRead)
	h.limiter = access.NewLimiter(access.LimiterOptions{Address: keys.Limits{ConcurrentRequests: 64}})
	address := h.limiter.OfAddress(netip.MustParseAddr("127.0.0.1"))
	defer address.Release()
	unread := &reply{of: h.replies, caller: address, anonymous: true, size: callerReplies}
	testenv.OK(t, h.replies.acquire(t.Context(), unread))
	h.refused(t, 429, wire.CodeTooManyAtOnce, "GET", "/v1/blobs/ours", "")
	h.want(t, 200, "GET", "/v1/info", "")
	h.want(t, 200, "GET", "/v1/blobs/ours", "", h.right.headers...)
	h.replies.resize(unread, 0)
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
	if w.Code != 200 || size < 10*replyPiece {
		t.Fatalf("%d: %d bytes", w.Code, size)
	}
	if most := int(s.minRate.BytesPerSecond()) * 33; w.longest > most || w.deadlines < size/most {
		t.Errorf("%d bytes are sent in pieces of up to %d, with %d deadlines; want at most %d at a time", size, w.longest, w.deadlines, most)
	}
}
