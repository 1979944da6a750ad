package payments

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"sluice/e2e"
)

// TestChargeOfReads checks that a read costs the distinct chunksets that it touches, by session and
// by micropayment, and nothing if there is nothing to send.
func TestChargeOfReads(t *testing.T) {
	t.Parallel()
	const price = 3
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid", "--chunkset-price", strconv.Itoa(price)}})
	data := e2e.Content(1, 4*e2e.ChunksetSize+5)
	target := e2e.BlobTarget("0x1", "five")
	etag := s.Must(204, "PUT", target, data).Header.Get("ETag")
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "empty"), nil)
	s.PutBrief(e2e.BlobTarget("0x1", "gone"))
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "exact"), data[:e2e.ChunksetSize])
	c := s.Open(s.Payer(1), 1_000_000)
	id := c.Buy(1000 * price).SessionID
	s.Eventually("the blob does not expire", func() bool { return s.Do("HEAD", e2e.BlobTarget("0x1", "gone"), nil).Status == 410 })

	const edge = e2e.ChunksetSize
	ranged := func(form string, args ...any) e2e.Headers {
		return e2e.Headers{"Range", "bytes=" + fmt.Sprintf(form, args...)}
	}
	excessive := ranged("%s", strings.TrimSuffix(strings.Repeat("0-0,", 65), ","))
	tests := []struct {
		method  string
		name    string
		headers e2e.Headers
		status  int
		charge  int64
	}{
		{"GET", "five", nil, 200, 5},
		{"GET", "exact", nil, 200, 1},
		{"GET", "five", ranged("0-0"), 206, 1},
		{"GET", "five", ranged("%d-%d", edge-1, edge), 206, 2},
		{"GET", "five", ranged("%d-%d", edge, 2*edge-1), 206, 1},
		{"GET", "five", ranged("-5"), 206, 1},
		{"GET", "five", ranged("-6"), 206, 2},
		{"GET", "five", ranged("%d-", 4*edge), 206, 1},
		{"GET", "five", ranged("%d-", 3*edge-1), 206, 3},
		{"GET", "five", ranged("0-0,5-5,%d-%d", edge-2, edge-1), 206, 1},
		{"GET", "five", ranged("0-0,-1"), 206, 2},
		{"GET", "five", ranged("%d-%d,0-0,%d-%d", 2*edge, 2*edge, edge, edge), 206, 3},
		{"GET", "five", ranged("0-0,%d-", 5*edge), 206, 1},
		{"GET", "five", e2e.Headers{"Range", "chunks=0-0"}, 200, 5},
		{"GET", "five", append(ranged("0-0"), "If-Range", `"another"`), 200, 5},
		{"GET", "five", append(ranged("0-0"), "If-Range", etag), 206, 1},
		{"GET", "empty", nil, 200, 0},
		{"GET", "empty", ranged("-1"), 200, 0},
		{"GET", "five", e2e.Headers{"If-None-Match", etag}, 304, 0},
		{"GET", "five", e2e.Headers{"If-Match", `"another"`}, 412, 0},
		{"GET", "five", ranged("%d-", len(data)), 416, 0},
		{"GET", "empty", ranged("0-"), 416, 0},
		{"GET", "five", ranged("5-2"), 416, 0},
		{"GET", "five", ranged("abc"), 416, 0},
		{"GET", "five", ranged("0-0,x"), 416, 0},
		{"GET", "five", ranged(""), 416, 0},
		{"GET", "five", excessive, 416, 0},
		{"GET", "absent", nil, 404, 0},
		{"GET", "gone", nil, 410, 0},
		{"HEAD", "five", nil, 200, 0},
		{"HEAD", "five", ranged("0-0"), 200, 0},
		{"HEAD", "five", ranged("abc"), 200, 0},
	}
	left := s.SessionState(id).ChunksetsLeft
	credit := int64(0)
	for _, test := range tests {
		name := fmt.Sprintf("%s %s %.60q", test.method, test.name, test.headers)
		bySession := s.Do(test.method, e2e.BlobTarget("0x1", test.name), nil, append(e2e.Headers{"Session-Id", id}, test.headers...)...)
		left -= test.charge
		// One unit more than the price, which remains as credit.
		byMicropayment := s.Do(test.method, e2e.BlobTarget("0x1", test.name), nil,
			append(e2e.Headers{"X-Shelby-Micropayment", c.Next(uint64(test.charge*price + 1))}, test.headers...)...)
		if test.charge > 0 {
			credit++
		} else {
			c.Sequence, c.Amount = c.Sequence-1, c.Amount-1
		}
		if bySession.Status != test.status || byMicropayment.Status != test.status {
			t.Fatalf("%s: %v by session, %v by micropayment, want %d", name, bySession, byMicropayment, test.status)
		}
		if !bytes.Equal(bySession.Body, byMicropayment.Body) && !strings.HasPrefix(bySession.Header.Get("Content-Type"), "multipart/") && test.status < 300 {
			t.Errorf("%s: the bytes by micropayment and by session differ", name)
		}
		if got := s.SessionState(id).ChunksetsLeft; got != left {
			t.Fatalf("%s: the session has %d chunksets left, want %d", name, got, left)
		}
		if got := c.State(); got.Accepted != fmt.Sprint(c.Amount) || got.Credit != fmt.Sprint(credit) || got.SequenceNumber != fmt.Sprint(c.Sequence) {
			t.Fatalf("%s: the channel is %s, want accepted %d credit %d sequence %d", name, got.Money(), c.Amount, credit, c.Sequence)
		}
		if test.status == 304 && bySession.Header.Get("Cache-Control") != "private, no-store" {
			t.Errorf("%s: Cache-Control is %q", name, bySession.Header.Get("Cache-Control"))
		}
		if test.method == "GET" && test.status < 300 {
			checkReceipts(s, name, bySession, byMicropayment, test.charge, left, credit/price)
		}
		if test.status >= 400 && test.method == "GET" {
			e2e.CheckProblem(t, bySession, test.status, "")
			e2e.CheckProblem(t, byMicropayment, test.status, "")
		}
		if test.status == 416 && bySession.Header.Get("Content-Range") == "" {
			t.Errorf("%s: no Content-Range: %v", name, bySession)
		}
	}
	if got := c.Settled(); got.Accepted != fmt.Sprint(c.Amount) {
		t.Errorf("settled %s, want %d", got.Settled, c.Amount)
	}
}

// checkReceipts checks the response headers after a read paid by session and by micropayment.
func checkReceipts(s *e2e.Server, name string, bySession, byMicropayment e2e.Response, charge, left, credit int64) {
	s.T.Helper()
	for _, r := range []struct {
		e2e.Response
		left int64
	}{{bySession, left}, {byMicropayment, credit}} {
		if got := r.Header.Get("Chunksets-Charged"); got != fmt.Sprint(charge) {
			s.T.Errorf("%s: Chunksets-Charged is %q, want %d", name, got, charge)
		}
		if got := r.Header.Get("Cache-Control"); got != "private, no-store" {
			s.T.Errorf("%s: Cache-Control is %q", name, got)
		}
		if got := r.Header.Get("Chunksets-Left"); charge > 0 && got != fmt.Sprint(r.left) {
			s.T.Errorf("%s: Chunksets-Left is %q, want %d", name, got, r.left)
		}
	}
}

// TestPriceIsReported checks that HEAD, which is free, and every 402 contain the price.
func TestPriceIsReported(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid", "--chunkset-price", "7"}})
	target := e2e.BlobTarget("0x1", "priced")
	etag := s.Must(204, "PUT", target, e2e.Content(1, e2e.ChunksetSize+1)).Header.Get("ETag")
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "empty"), nil)
	for name, want := range map[string]string{"priced": "2", "empty": "0"} {
		r := s.Must(200, "HEAD", e2e.BlobTarget("0x1", name), nil)
		if got := r.Header.Get("Chunkset-Price") + " " + r.Header.Get("Chunksets-Required"); got != "7 "+want {
			t.Errorf("HEAD of %s: price and chunksets are %q, want 7 and %s", name, got, want)
		}
		if got := r.Header.Get("Chunksets-Charged"); got != "" && got != "0" {
			t.Errorf("HEAD of %s: charged %s", name, got)
		}
	}
	// The server checks the payment before conditions and ranges, even for an empty blob.
	for _, h := range []e2e.Headers{nil, {"Range", "bytes=0-0"}, {"Range", "bytes=999999999-"}, {"If-None-Match", etag}, {"If-Match", `"x"`}, {"Max-Chunksets", "1"},
		{"Authorization", "Bearer some-key"}} {
		r := s.Do("GET", target, nil, h...)
		e2e.CheckProblem(t, r, 402, "payment_required")
		if got := r.Header.Get("Chunkset-Price"); got != "7" {
			t.Errorf("402 to %q: Chunkset-Price is %q, want 7", h, got)
		}
		for _, name := range []string{"ETag", "Last-Modified", "Content-Range", "Repr-Digest"} {
			if got := r.Header.Get(name); got != "" {
				t.Errorf("402 to %q: %s is %q", h, name, got)
			}
		}
	}
	e2e.CheckProblem(t, s.Do("GET", e2e.BlobTarget("0x1", "empty"), nil), 402, "payment_required")
	for _, body := range []string{"", "{}", `{"userIdentity":"0x2"}`} {
		r := s.Do("POST", "/v1/sessions", []byte(body))
		e2e.CheckProblem(t, r, 402, "payment_required")
	}
	// All other operations stay free.
	s.Must(200, "GET", "/v1/blobs/0x1", nil)
	s.Must(200, "GET", "/v1/info", nil)
	s.Must(204, "DELETE", target, nil)
}

// TestOrderOfPaidReads sends requests that are wrong in two ways. The order of the server's checks
// decides which error it reports.
func TestOrderOfPaidReads(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid", "--chunkset-price", "10"}})
	target, absent := e2e.BlobTarget("0x1", "here"), e2e.BlobTarget("0x1", "absent")
	etag := s.Must(204, "PUT", target, e2e.Content(1, e2e.ChunksetSize+1)).Header.Get("ETag")
	c := s.Open(s.Payer(1), 1000)
	id := c.Buy(10).SessionID
	stale := c.Again()
	s.Must(200, "POST", "/v1/sessions/"+id+"/use", nil)
	live := s.Payer(1).Sign(t, c.Number, c.Sequence+1, c.Amount+5).Base64() // too little for a chunkset
	nowhere := s.Payer(2).Sign(t, c.Number, 1, 50).Base64()
	closed := s.Open(s.Payer(3), 1000)
	s.Must(200, "POST", e2e.Channels+"/"+closed.ID+"/close", nil)
	malformed := "AAAA"
	refused := s.Payer(1).Sign(t, c.Number, 9, 90, expired).Base64()
	const session, micropayment = "Session-Id", "X-Shelby-Micropayment"
	tests := []struct {
		target  string
		headers e2e.Headers
		status  int
		code    string
	}{
		// Syntax before payment.
		{"/v1/blobs/0x1/", e2e.Headers{session, "unknown"}, 400, ""},
		{"/v1/blobs/0xzz/name", e2e.Headers{micropayment, malformed}, 400, "bad_account"},
		{target, e2e.Headers{session, id, micropayment, live}, 400, ""},
		{absent, e2e.Headers{session, "unknown", micropayment, malformed}, 400, ""},
		{target, e2e.Headers{session, id, session, id}, 400, ""},
		{target, e2e.Headers{"Max-Chunksets", "x"}, 400, ""},
		{absent, e2e.Headers{"Max-Chunksets", "-1", session, "unknown"}, 400, ""},
		{target, e2e.Headers{"Max-Chunksets", "1.5", session, id}, 400, ""},
		{target, e2e.Headers{"Max-Chunksets", "", session, id}, 400, ""},
		{target, e2e.Headers{"Max-Chunksets", "1", "Max-Chunksets", "2", session, id}, 400, ""},
		// The session or channel before the blob.
		{absent, e2e.Headers{session, "unknown"}, 402, "session_not_found"},
		{absent, e2e.Headers{session, ""}, 402, "session_not_found"},
		{absent, e2e.Headers{micropayment, malformed}, 400, "micropayment_malformed"},
		{absent, e2e.Headers{micropayment, ""}, 400, "micropayment_malformed"},
		{absent, e2e.Headers{micropayment, refused}, 402, "micropayment_refused"},
		{absent, e2e.Headers{micropayment, nowhere}, 402, "channel_not_found"},
		{absent, e2e.Headers{micropayment, closed.Next(10)}, 402, "channel_closed"},
		// The blob before the price, the conditions and the charge.
		{absent, nil, 404, "blob_not_found"},
		{absent, e2e.Headers{session, id}, 404, "blob_not_found"},
		{absent, e2e.Headers{micropayment, stale}, 404, "blob_not_found"},
		{absent, e2e.Headers{micropayment, live}, 404, "blob_not_found"},
		// Conditions before the range and the charge.
		{target, e2e.Headers{session, id, "If-None-Match", etag}, 304, ""},
		{target, e2e.Headers{micropayment, stale, "If-None-Match", etag}, 304, ""},
		{target, e2e.Headers{session, id, "If-Match", `"x"`, "Range", "bytes=9-1"}, 412, "precondition_failed"},
		{target, e2e.Headers{session, "unknown", "If-None-Match", etag}, 402, "session_not_found"},
		// The range before the charge.
		{target, e2e.Headers{session, id, "Range", "bytes=99999999-"}, 416, "range_not_satisfiable"},
		{target, e2e.Headers{micropayment, stale, "Range", "bytes=9-1"}, 416, "range_not_satisfiable"},
		{target, e2e.Headers{session, id, "Range", "bytes=9-1", "Max-Chunksets", "0"}, 416, "range_not_satisfiable"},
		// The charge.
		{target, e2e.Headers{session, id}, 402, "no_chunksets_left"},
		{target, e2e.Headers{session, id, "Range", "bytes=0-0"}, 402, "no_chunksets_left"},
		{target, e2e.Headers{session, id, "Max-Chunksets", "1"}, 402, "charge_above_limit"},
		{target, e2e.Headers{micropayment, live, "Max-Chunksets", "1"}, 402, "charge_above_limit"},
		{target, e2e.Headers{micropayment, stale, "Max-Chunksets", "2"}, 409, "micropayment_stale"},
		{target, e2e.Headers{micropayment, live, "Max-Chunksets", "2"}, 402, "insufficient_funds"},
		{target, e2e.Headers{micropayment, stale}, 409, "micropayment_stale"},
	}
	before := c.State().Money()
	for _, test := range tests {
		r := s.Do("GET", test.target, nil, test.headers...)
		if test.status < 400 {
			if r.Status != test.status {
				t.Errorf("%s %.80q: %v, want %d", test.target, test.headers, r, test.status)
			}
		} else if e2e.CheckProblem(t, r, test.status, test.code) == "" || t.Failed() {
			t.Fatalf("%s %.80q", test.target, test.headers)
		}
		if test.status == 402 && strings.Contains(string(r.Body), c.ID) {
			t.Errorf("a 402 reveals the channelId: %s", r.Body)
		}
	}
	if got := c.State().Money(); got != before {
		t.Errorf("refused reads changed the channel from %q to %q", before, got)
	}
	if left := s.Left(id); left != "0" {
		t.Errorf("the empty session has %s chunksets left", left)
	}
}

// TestChecksumsOfSmallBlobsArePaidFor checks that the server returns checksums, and compares them
// with a guess, only for a payment: a checksum over a few bytes reveals the bytes.
func TestChecksumsOfSmallBlobsArePaidFor(t *testing.T) {
	t.Parallel()
	small, large := e2e.BlobTarget("bob", "small"), e2e.BlobTarget("bob", "large")
	store := func(_ *testing.T, s *e2e.Server) (etag string) {
		sent := e2e.Content(1, 16)
		sum := sha256.Sum256(sent)
		etag = s.Must(204, "PUT", small, sent, "Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":").Header.Get("ETag")
		s.Must(204, "PUT", large, e2e.Content(2, 17))
		return etag
	}
	withheld := func(t *testing.T, s *e2e.Server, etag, session string) {
		t.Helper()
		left := s.Left(session)
		checks := func(r e2e.Response, status int, want bool) {
			t.Helper()
			if present := r.Header.Get("ETag") != "" || r.Header.Get("Repr-Digest") != ""; r.Status != status || present != want {
				t.Errorf("%v, want %d with checksums %t: %v", r, status, want, r.Header)
			}
		}
		other := `"10-0000000000000000"`
		conditions := []e2e.Headers{
			nil, {"If-None-Match", etag}, {"If-None-Match", other}, {"If-None-Match", "*"}, {"If-Match", etag}, {"If-Match", other},
			{"If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT"}, {"If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT"},
			{"If-Range", etag, "Range", "bytes=16-"}, {"If-Range", other, "Range", "bytes=16-"},
		}
		for _, h := range conditions {
			checks(s.Do("HEAD", small, nil, h...), 200, false)
			checks(s.Do("HEAD", small, nil, append(h, "Session-Id", session)...), 200, false)
			checks(s.Do("GET", small, nil, h...), 402, false)
			// Without a payment, no response depends on a guess.
			checks(s.Do("GET", small, nil, append(h, "Session-Id", session, "Max-Chunksets", "0")...), 402, false)
		}
		checks(s.Do("GET", small, nil, "Session-Id", session, "Range", "bytes=16-"), 416, false)
		checks(s.Do("HEAD", large, nil), 200, true)
		checks(s.Do("GET", large, nil, "If-None-Match", s.Do("HEAD", large, nil).Header.Get("ETag"), "Session-Id", session), 304, true)
		if got := s.Left(session); got != left {
			t.Errorf("%s chunksets left of %s, although nothing was read", got, left)
		}
		paid := s.Do("GET", small, nil, "Session-Id", session, "If-None-Match", etag)
		checks(paid, 200, true)
		if len(paid.Body) != 16 || paid.Header.Get("ETag") != etag {
			t.Errorf("a paid read: %v %v", paid, paid.Header)
		}
		if ranged := s.Do("GET", small, nil, "Session-Id", session, "If-Range", etag, "Range", "bytes=1-2"); ranged.Status != 200 || len(ranged.Body) != 16 {
			t.Errorf("with If-Range: %v", ranged)
		}
		checks(s.Do("GET", small, nil, "Session-Id", session, "Range", "bytes=1-2"), 206, true)
	}
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid"}})
		etag := store(t, s)
		withheld(t, s, etag, s.Open(s.Payer(1), 100).Buy(10).SessionID)
		list := string(s.Must(200, "GET", "/v1/blobs/bob", nil).Body)
		if strings.Contains(list, strings.Trim(etag, `"`)) || strings.Count(list, `"etag"`) != 1 {
			t.Errorf("the list contains a checksum: %s", list)
		}
	})
	t.Run("hosted", func(t *testing.T) {
		t.Parallel()
		s := e2e.StartHosted(t, "paid")
		admin := s.AsAdmin()
		etag := store(t, admin)
		session := admin.Open(s.Payer(1), 100).Buy(10).SessionID
		withheld(t, s, etag, session)
		withheld(t, s.As(s.NewKey("--scopes", "read", "--accounts", "alice")), etag, session)
		reader := s.As(s.NewKey("--scopes", "read", "--accounts", "bob"))
		if r := reader.Do("HEAD", small, nil); r.Status != 200 || r.Header.Get("ETag") != etag || r.Header.Get("Repr-Digest") == "" {
			t.Errorf("HEAD with a key for the account: %v %v", r, r.Header)
		}
		if r := reader.Do("GET", small, nil, "If-None-Match", etag); r.Status != 304 {
			t.Errorf("a condition with a key for the account: %v", r)
		}
		if list := string(reader.Must(200, "GET", "/v1/blobs/bob", nil).Body); strings.Count(list, `"etag"`) != 2 {
			t.Errorf("the list with a key for the account: %s", list)
		}
	})
}

// TestMaxChunksets checks that a read costs at most what its client allows.
func TestMaxChunksets(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid"}})
	target := e2e.BlobTarget("0x1", "two")
	s.Must(204, "PUT", target, e2e.Content(1, e2e.ChunksetSize+1))
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "empty"), nil)
	id := s.Open(s.Payer(1), 1000).Buy(100).SessionID
	e2e.CheckProblem(t, s.Do("GET", target, nil, "Session-Id", id, "Max-Chunksets", "1"), 402, "charge_above_limit")
	e2e.CheckProblem(t, s.Do("GET", target, nil, "Session-Id", id, "Max-Chunksets", "0", "Range", "bytes=0-0"), 402, "charge_above_limit")
	e2e.CheckPaid(t, s.Must(206, "GET", target, nil, "Session-Id", id, "Max-Chunksets", "1", "Range", "bytes=0-0"), "1", "99")
	e2e.CheckPaid(t, s.Must(200, "GET", target, nil, "Session-Id", id, "Max-Chunksets", "2"), "2", "97")
	s.Must(200, "GET", e2e.BlobTarget("0x1", "empty"), nil, "Session-Id", id, "Max-Chunksets", "0")
	if left := s.Left(id); left != "97" {
		t.Errorf("%s chunksets left, want 97", left)
	}
}

// TestPublicReadsAreFree checks that the server ignores payments for reads by default.
func TestPublicReadsAreFree(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	target := e2e.BlobTarget("0x1", "free")
	s.Must(204, "PUT", target, []byte("free"))
	made := e2e.AsSession(t, s.Must(201, "POST", "/v1/sessions", []byte("{}")))
	if made.ChunksetsLeft != 1000 || made.ChunksetsTotal != 1000 {
		t.Errorf("{} returned %+v, want 1000 chunksets", made)
	}
	c := s.Open(s.Payer(1), 100)
	for _, h := range []e2e.Headers{
		nil,
		{"Session-Id", made.SessionID},
		{"Session-Id", "unknown"},
		{"X-Shelby-Micropayment", c.Next(10)},
		{"X-Shelby-Micropayment", "nonsense"},
		{"Session-Id", made.SessionID, "X-Shelby-Micropayment", c.Again()},
		{"Session-Id", made.SessionID, "Max-Chunksets", "0"},
	} {
		r := s.Must(200, "GET", target, nil, h...)
		if string(r.Body) != "free" || r.Header.Get("Cache-Control") != "no-cache" || r.Header.Get("Chunksets-Charged") != "" {
			t.Errorf("GET with %.60q: %v", h, r)
		}
	}
	if head := s.Must(200, "HEAD", target, nil); head.Header.Get("Chunkset-Price") != "" {
		t.Errorf("HEAD on a free blob has a price: %v", head)
	}
	if got := c.State(); got.Accepted != "0" {
		t.Errorf("a free read was paid for: %s", got.Money())
	}
	if left := s.Left(made.SessionID); left != "1000" {
		t.Errorf("free reads were deducted from the session: %s left", left)
	}
	// A session can be bought here too, and used explicitly.
	bought := c.Buy(3)
	if bought.ChunksetsTotal != 13 {
		t.Errorf("13 units at 1 bought %+v", bought)
	}
	// Anyone who knows a session may add to it.
	for _, id := range []string{bought.SessionID, made.SessionID} {
		other := s.Open(s.Payer(2), 100)
		before := s.SessionState(id)
		r := e2e.AsSession(t, s.Must(200, "POST", "/v1/sessions", e2e.PurchaseBody(t, other.Next(5), id)))
		if r.ChunksetsTotal != before.ChunksetsTotal+5 || r.ChunksetsLeft != before.ChunksetsLeft+5 || r.SessionID != id {
			t.Errorf("5 units made the session %+v, it was %+v", r, before)
		}
	}
}

// TestPaidReadsRace checks that with a number of chunksets left and more concurrent reads, the
// server serves exactly as many reads as were paid for, completely.
func TestPaidReadsRace(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid"}})
	data := e2e.Content(1, e2e.ChunksetSize+2000)
	target := e2e.BlobTarget("0x1", "raced")
	s.Must(204, "PUT", target, data)
	id := s.Open(s.Payer(1), 1000).Buy(61).SessionID
	served := int64(0)
	for _, r := range s.AtOnce(100, func(i int) (e2e.Response, error) {
		h := e2e.Headers{"Session-Id", id, "Range", "bytes=5-1004"}
		if i%2 == 0 { // two chunksets
			h[3] = fmt.Sprintf("bytes=%d-%d", e2e.ChunksetSize-500, e2e.ChunksetSize+499)
		}
		return s.Try("GET", target, nil, h...)
	}) {
		if r.Status != 206 {
			e2e.CheckProblem(t, r, 402, "no_chunksets_left")
			continue
		}
		served += e2e.Number(t, r.Header.Get("Chunksets-Charged"))
		if len(r.Body) != 1000 || !bytes.Contains(data, r.Body) {
			t.Errorf("a paid read returned other bytes")
		}
	}
	if left := s.Left(id); fmt.Sprint(61-served) != left || left != "0" {
		t.Errorf("of 61 chunksets %d were served, %s are left", served, left)
	}
}

// TestDamagedReadsCostNothing checks that the server charges nothing for bytes that it cannot
// serve.
func TestDamagedReadsCostNothing(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid"}, Damaged: true})
	target := e2e.BlobTarget("0x1", "damaged")
	data := e2e.Content(1, 4<<20)
	s.Must(204, "PUT", target, data)
	c := s.Open(s.Payer(1), 1000)
	id := c.Buy(100).SessionID
	s.Stop()
	s.FlipBit(int64(len(data)), 5)
	s.Restart()
	for range 3 {
		r, err := s.Try("GET", target, nil, "Session-Id", id)
		if err == nil && (r.Status != 500 || r.Header.Get("Chunksets-Charged") != "") {
			t.Errorf("a read of a damaged blob: %v", r)
		}
	}
	s.Eventually("a chunkset that could not be served is not returned", func() bool { return s.Left(id) == "100" })
	if r, err := s.Try("GET", target, nil, "X-Shelby-Micropayment", c.Next(1)); err == nil && r.Status != 500 {
		t.Errorf("a read of a damaged blob: %d", r.Status)
	}
	s.Eventually("the price of a chunkset that could not be served is not returned", func() bool {
		return c.State().Money() == "deposit 1000 accepted 101 credit 1 sequence 2 open"
	})
}
