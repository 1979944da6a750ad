package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// chunksetSize is the unit in which reads are paid.
const chunksetSize = 10 << 20

// checkPaid fails the test unless the response has a paid read's receipt and forbids caching.
func checkPaid(t testing.TB, r response, charged, left string) {
	t.Helper()
	for name, want := range map[string]string{"Chunksets-Charged": charged, "Chunksets-Left": left, "Cache-Control": "private, no-store"} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%d: %s is %q, want %q", r.status, name, got, want)
		}
	}
}

// TestChargeOfReads checks that a read costs the distinct chunksets that it touches, by session and
// by micropayment, and nothing if there is nothing to send.
func TestChargeOfReads(t *testing.T) {
	t.Parallel()
	const price = 3
	s := start(t, options{flags: []string{"--reads", "paid", "--chunkset-price", strconv.Itoa(price)}})
	data := content(1, 4*chunksetSize+5)
	target := blobTarget("0x1", "five")
	etag := s.must(204, "PUT", target, data).header.Get("ETag")
	s.must(204, "PUT", blobTarget("0x1", "empty"), nil)
	s.putBrief(blobTarget("0x1", "gone"))
	s.must(204, "PUT", blobTarget("0x1", "exact"), data[:chunksetSize])
	c := s.open(s.payer(1), 1_000_000)
	id := c.buy(1000 * price).SessionID
	s.eventually("the blob does not expire", func() bool { return s.do("HEAD", blobTarget("0x1", "gone"), nil).status == 410 })

	const edge = chunksetSize
	ranged := func(form string, args ...any) headers { return headers{"Range", "bytes=" + fmt.Sprintf(form, args...)} }
	excessive := ranged("%s", strings.TrimSuffix(strings.Repeat("0-0,", 65), ","))
	tests := []struct {
		method  string
		name    string
		headers headers
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
		{"GET", "five", headers{"Range", "chunks=0-0"}, 200, 5},
		{"GET", "five", append(ranged("0-0"), "If-Range", `"another"`), 200, 5},
		{"GET", "five", append(ranged("0-0"), "If-Range", etag), 206, 1},
		{"GET", "empty", nil, 200, 0},
		{"GET", "empty", ranged("-1"), 200, 0},
		{"GET", "five", headers{"If-None-Match", etag}, 304, 0},
		{"GET", "five", headers{"If-Match", `"another"`}, 412, 0},
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
	left := s.sessionState(id).ChunksetsLeft
	credit := int64(0)
	for _, test := range tests {
		name := fmt.Sprintf("%s %s %.60q", test.method, test.name, test.headers)
		bySession := s.do(test.method, blobTarget("0x1", test.name), nil, append(headers{"Session-Id", id}, test.headers...)...)
		left -= test.charge
		// One unit more than the price, which remains as credit.
		byMicropayment := s.do(test.method, blobTarget("0x1", test.name), nil,
			append(headers{"X-Shelby-Micropayment", c.next(uint64(test.charge*price + 1))}, test.headers...)...)
		if test.charge > 0 {
			credit++
		} else {
			c.sequence, c.amount = c.sequence-1, c.amount-1
		}
		if bySession.status != test.status || byMicropayment.status != test.status {
			t.Fatalf("%s: %v by session, %v by micropayment, want %d", name, bySession, byMicropayment, test.status)
		}
		if !bytes.Equal(bySession.body, byMicropayment.body) && !strings.HasPrefix(bySession.header.Get("Content-Type"), "multipart/") && test.status < 300 {
			t.Errorf("%s: the bytes by micropayment and by session differ", name)
		}
		if got := s.sessionState(id).ChunksetsLeft; got != left {
			t.Fatalf("%s: the session has %d chunksets left, want %d", name, got, left)
		}
		if got := c.state(); got.Accepted != fmt.Sprint(c.amount) || got.Credit != fmt.Sprint(credit) || got.SequenceNumber != fmt.Sprint(c.sequence) {
			t.Fatalf("%s: the channel is %s, want accepted %d credit %d sequence %d", name, got.money(), c.amount, credit, c.sequence)
		}
		if test.status == 304 && bySession.header.Get("Cache-Control") != "private, no-store" {
			t.Errorf("%s: Cache-Control is %q", name, bySession.header.Get("Cache-Control"))
		}
		if test.method == "GET" && test.status < 300 {
			s.checkReceipts(name, bySession, byMicropayment, test.charge, left, credit/price)
		}
		if test.status >= 400 && test.method == "GET" {
			checkProblem(t, bySession, test.status, "")
			checkProblem(t, byMicropayment, test.status, "")
		}
		if test.status == 416 && bySession.header.Get("Content-Range") == "" {
			t.Errorf("%s: no Content-Range: %v", name, bySession)
		}
	}
	if got := c.settled(); got.Accepted != fmt.Sprint(c.amount) {
		t.Errorf("settled %s, want %d", got.Settled, c.amount)
	}
}

// checkReceipts checks the response headers after a read paid by session and by micropayment.
func (s *server) checkReceipts(name string, bySession, byMicropayment response, charge, left, credit int64) {
	s.t.Helper()
	for _, r := range []struct {
		response
		left int64
	}{{bySession, left}, {byMicropayment, credit}} {
		if got := r.header.Get("Chunksets-Charged"); got != fmt.Sprint(charge) {
			s.t.Errorf("%s: Chunksets-Charged is %q, want %d", name, got, charge)
		}
		if got := r.header.Get("Cache-Control"); got != "private, no-store" {
			s.t.Errorf("%s: Cache-Control is %q", name, got)
		}
		if got := r.header.Get("Chunksets-Left"); charge > 0 && got != fmt.Sprint(r.left) {
			s.t.Errorf("%s: Chunksets-Left is %q, want %d", name, got, r.left)
		}
	}
}

// TestPriceIsReported checks that HEAD, which is free, and every 402 contain the price.
func TestPriceIsReported(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--reads", "paid", "--chunkset-price", "7"}})
	target := blobTarget("0x1", "priced")
	etag := s.must(204, "PUT", target, content(1, chunksetSize+1)).header.Get("ETag")
	s.must(204, "PUT", blobTarget("0x1", "empty"), nil)
	for name, want := range map[string]string{"priced": "2", "empty": "0"} {
		r := s.must(200, "HEAD", blobTarget("0x1", name), nil)
		if got := r.header.Get("Chunkset-Price") + " " + r.header.Get("Chunksets-Required"); got != "7 "+want {
			t.Errorf("HEAD of %s: price and chunksets are %q, want 7 and %s", name, got, want)
		}
		if got := r.header.Get("Chunksets-Charged"); got != "" && got != "0" {
			t.Errorf("HEAD of %s: charged %s", name, got)
		}
	}
	// The server checks the payment before conditions and ranges, even for an empty blob.
	for _, h := range []headers{nil, {"Range", "bytes=0-0"}, {"Range", "bytes=999999999-"}, {"If-None-Match", etag}, {"If-Match", `"x"`}, {"Max-Chunksets", "1"},
		{"Authorization", "Bearer some-key"}} {
		r := s.do("GET", target, nil, h...)
		checkProblem(t, r, 402, "payment_required")
		if got := r.header.Get("Chunkset-Price"); got != "7" {
			t.Errorf("402 to %q: Chunkset-Price is %q, want 7", h, got)
		}
		for _, name := range []string{"ETag", "Last-Modified", "Content-Range", "Repr-Digest"} {
			if got := r.header.Get(name); got != "" {
				t.Errorf("402 to %q: %s is %q", h, name, got)
			}
		}
	}
	checkProblem(t, s.do("GET", blobTarget("0x1", "empty"), nil), 402, "payment_required")
	for _, body := range []string{"", "{}", `{"userIdentity":"0x2"}`} {
		r := s.do("POST", "/v1/sessions", []byte(body))
		checkProblem(t, r, 402, "payment_required")
	}
	// All other operations stay free.
	s.must(200, "GET", "/v1/blobs/0x1", nil)
	s.must(200, "GET", "/v1/info", nil)
	s.must(204, "DELETE", target, nil)
}

// TestOrderOfPaidReads sends requests that are wrong in two ways. The order of the server's checks
// decides which error it reports.
func TestOrderOfPaidReads(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--reads", "paid", "--chunkset-price", "10"}})
	target, absent := blobTarget("0x1", "here"), blobTarget("0x1", "absent")
	etag := s.must(204, "PUT", target, content(1, chunksetSize+1)).header.Get("ETag")
	c := s.open(s.payer(1), 1000)
	id := c.buy(10).SessionID
	stale := c.again()
	s.must(200, "POST", "/v1/sessions/"+id+"/use", nil)
	live := s.payer(1).sign(t, c.number, c.sequence+1, c.amount+5).Base64() // too little for a chunkset
	nowhere := s.payer(2).sign(t, c.number, 1, 50).Base64()
	closed := s.open(s.payer(3), 1000)
	s.must(200, "POST", channels+"/"+closed.id+"/close", nil)
	malformed := "AAAA"
	refused := s.payer(1).sign(t, c.number, 9, 90, expired).Base64()
	const session, micropayment = "Session-Id", "X-Shelby-Micropayment"
	tests := []struct {
		target  string
		headers headers
		status  int
		code    string
	}{
		// Syntax before payment.
		{"/v1/blobs/0x1/", headers{session, "unknown"}, 400, ""},
		{"/v1/blobs/0xzz/name", headers{micropayment, malformed}, 400, "bad_account"},
		{target, headers{session, id, micropayment, live}, 400, ""},
		{absent, headers{session, "unknown", micropayment, malformed}, 400, ""},
		{target, headers{session, id, session, id}, 400, ""},
		{target, headers{"Max-Chunksets", "x"}, 400, ""},
		{absent, headers{"Max-Chunksets", "-1", session, "unknown"}, 400, ""},
		{target, headers{"Max-Chunksets", "1.5", session, id}, 400, ""},
		{target, headers{"Max-Chunksets", "", session, id}, 400, ""},
		{target, headers{"Max-Chunksets", "1", "Max-Chunksets", "2", session, id}, 400, ""},
		// The session or channel before the blob.
		{absent, headers{session, "unknown"}, 402, "session_not_found"},
		{absent, headers{session, ""}, 402, "session_not_found"},
		{absent, headers{micropayment, malformed}, 400, "micropayment_malformed"},
		{absent, headers{micropayment, ""}, 400, "micropayment_malformed"},
		{absent, headers{micropayment, refused}, 402, "micropayment_refused"},
		{absent, headers{micropayment, nowhere}, 402, "channel_not_found"},
		{absent, headers{micropayment, closed.next(10)}, 402, "channel_closed"},
		// The blob before the price, the conditions and the charge.
		{absent, nil, 404, "blob_not_found"},
		{absent, headers{session, id}, 404, "blob_not_found"},
		{absent, headers{micropayment, stale}, 404, "blob_not_found"},
		{absent, headers{micropayment, live}, 404, "blob_not_found"},
		// Conditions before the range and the charge.
		{target, headers{session, id, "If-None-Match", etag}, 304, ""},
		{target, headers{micropayment, stale, "If-None-Match", etag}, 304, ""},
		{target, headers{session, id, "If-Match", `"x"`, "Range", "bytes=9-1"}, 412, "precondition_failed"},
		{target, headers{session, "unknown", "If-None-Match", etag}, 402, "session_not_found"},
		// The range before the charge.
		{target, headers{session, id, "Range", "bytes=99999999-"}, 416, "range_not_satisfiable"},
		{target, headers{micropayment, stale, "Range", "bytes=9-1"}, 416, "range_not_satisfiable"},
		{target, headers{session, id, "Range", "bytes=9-1", "Max-Chunksets", "0"}, 416, "range_not_satisfiable"},
		// The charge.
		{target, headers{session, id}, 402, "no_chunksets_left"},
		{target, headers{session, id, "Range", "bytes=0-0"}, 402, "no_chunksets_left"},
		{target, headers{session, id, "Max-Chunksets", "1"}, 402, "charge_above_limit"},
		{target, headers{micropayment, live, "Max-Chunksets", "1"}, 402, "charge_above_limit"},
		{target, headers{micropayment, stale, "Max-Chunksets", "2"}, 409, "micropayment_stale"},
		{target, headers{micropayment, live, "Max-Chunksets", "2"}, 402, "insufficient_funds"},
		{target, headers{micropayment, stale}, 409, "micropayment_stale"},
	}
	before := c.state().money()
	for _, test := range tests {
		r := s.do("GET", test.target, nil, test.headers...)
		if test.status < 400 {
			if r.status != test.status {
				t.Errorf("%s %.80q: %v, want %d", test.target, test.headers, r, test.status)
			}
		} else if checkProblem(t, r, test.status, test.code) == "" || t.Failed() {
			t.Fatalf("%s %.80q", test.target, test.headers)
		}
		if test.status == 402 && strings.Contains(string(r.body), c.id) {
			t.Errorf("a 402 reveals the channelId: %s", r.body)
		}
	}
	if got := c.state().money(); got != before {
		t.Errorf("refused reads changed the channel from %q to %q", before, got)
	}
	if left := s.left(id); left != "0" {
		t.Errorf("the empty session has %s chunksets left", left)
	}
}

// TestChecksumsOfSmallBlobsArePaidFor checks that the server returns checksums, and compares them
// with a guess, only for a payment: a checksum over a few bytes reveals the bytes.
func TestChecksumsOfSmallBlobsArePaidFor(t *testing.T) {
	t.Parallel()
	small, large := blobTarget("bob", "small"), blobTarget("bob", "large")
	store := func(_ *testing.T, s *server) (etag string) {
		sent := content(1, 16)
		sum := sha256.Sum256(sent)
		etag = s.must(204, "PUT", small, sent, "Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":").header.Get("ETag")
		s.must(204, "PUT", large, content(2, 17))
		return etag
	}
	withheld := func(t *testing.T, s *server, etag, session string) {
		t.Helper()
		left := s.left(session)
		checks := func(r response, status int, want bool) {
			t.Helper()
			if present := r.header.Get("ETag") != "" || r.header.Get("Repr-Digest") != ""; r.status != status || present != want {
				t.Errorf("%v, want %d with checksums %t: %v", r, status, want, r.header)
			}
		}
		other := `"10-0000000000000000"`
		conditions := []headers{
			nil, {"If-None-Match", etag}, {"If-None-Match", other}, {"If-None-Match", "*"}, {"If-Match", etag}, {"If-Match", other},
			{"If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT"}, {"If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT"},
			{"If-Range", etag, "Range", "bytes=16-"}, {"If-Range", other, "Range", "bytes=16-"},
		}
		for _, h := range conditions {
			checks(s.do("HEAD", small, nil, h...), 200, false)
			checks(s.do("HEAD", small, nil, append(h, "Session-Id", session)...), 200, false)
			checks(s.do("GET", small, nil, h...), 402, false)
			// Without a payment, no response depends on a guess.
			checks(s.do("GET", small, nil, append(h, "Session-Id", session, "Max-Chunksets", "0")...), 402, false)
		}
		checks(s.do("GET", small, nil, "Session-Id", session, "Range", "bytes=16-"), 416, false)
		checks(s.do("HEAD", large, nil), 200, true)
		checks(s.do("GET", large, nil, "If-None-Match", s.do("HEAD", large, nil).header.Get("ETag"), "Session-Id", session), 304, true)
		if got := s.left(session); got != left {
			t.Errorf("%s chunksets left of %s, although nothing was read", got, left)
		}
		paid := s.do("GET", small, nil, "Session-Id", session, "If-None-Match", etag)
		checks(paid, 200, true)
		if len(paid.body) != 16 || paid.header.Get("ETag") != etag {
			t.Errorf("a paid read: %v %v", paid, paid.header)
		}
		if ranged := s.do("GET", small, nil, "Session-Id", session, "If-Range", etag, "Range", "bytes=1-2"); ranged.status != 200 || len(ranged.body) != 16 {
			t.Errorf("with If-Range: %v", ranged)
		}
		checks(s.do("GET", small, nil, "Session-Id", session, "Range", "bytes=1-2"), 206, true)
	}
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		s := start(t, options{flags: []string{"--reads", "paid"}})
		etag := store(t, s)
		withheld(t, s, etag, s.open(s.payer(1), 100).buy(10).SessionID)
		list := string(s.must(200, "GET", "/v1/blobs/bob", nil).body)
		if strings.Contains(list, strings.Trim(etag, `"`)) || strings.Count(list, `"etag"`) != 1 {
			t.Errorf("the list contains a checksum: %s", list)
		}
	})
	t.Run("hosted", func(t *testing.T) {
		t.Parallel()
		s := startHosted(t, "paid")
		admin := s.asAdmin()
		etag := store(t, admin)
		session := admin.open(s.payer(1), 100).buy(10).SessionID
		withheld(t, s, etag, session)
		withheld(t, s.as(s.newKey("--scopes", "read", "--accounts", "alice")), etag, session)
		reader := s.as(s.newKey("--scopes", "read", "--accounts", "bob"))
		if r := reader.do("HEAD", small, nil); r.status != 200 || r.header.Get("ETag") != etag || r.header.Get("Repr-Digest") == "" {
			t.Errorf("HEAD with a key for the account: %v %v", r, r.header)
		}
		if r := reader.do("GET", small, nil, "If-None-Match", etag); r.status != 304 {
			t.Errorf("a condition with a key for the account: %v", r)
		}
		if list := string(reader.must(200, "GET", "/v1/blobs/bob", nil).body); strings.Count(list, `"etag"`) != 2 {
			t.Errorf("the list with a key for the account: %s", list)
		}
	})
}

// TestMaxChunksets checks that a read costs at most what its client allows.
func TestMaxChunksets(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--reads", "paid"}})
	target := blobTarget("0x1", "two")
	s.must(204, "PUT", target, content(1, chunksetSize+1))
	s.must(204, "PUT", blobTarget("0x1", "empty"), nil)
	id := s.open(s.payer(1), 1000).buy(100).SessionID
	checkProblem(t, s.do("GET", target, nil, "Session-Id", id, "Max-Chunksets", "1"), 402, "charge_above_limit")
	checkProblem(t, s.do("GET", target, nil, "Session-Id", id, "Max-Chunksets", "0", "Range", "bytes=0-0"), 402, "charge_above_limit")
	checkPaid(t, s.must(206, "GET", target, nil, "Session-Id", id, "Max-Chunksets", "1", "Range", "bytes=0-0"), "1", "99")
	checkPaid(t, s.must(200, "GET", target, nil, "Session-Id", id, "Max-Chunksets", "2"), "2", "97")
	s.must(200, "GET", blobTarget("0x1", "empty"), nil, "Session-Id", id, "Max-Chunksets", "0")
	if left := s.left(id); left != "97" {
		t.Errorf("%s chunksets left, want 97", left)
	}
}

// TestPublicReadsAreFree checks that the server ignores payments for reads by default.
func TestPublicReadsAreFree(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	target := blobTarget("0x1", "free")
	s.must(204, "PUT", target, []byte("free"))
	made := asSession(t, s.must(201, "POST", "/v1/sessions", []byte("{}")))
	if made.ChunksetsLeft != 1000 || made.ChunksetsTotal != 1000 {
		t.Errorf("{} returned %+v, want 1000 chunksets", made)
	}
	c := s.open(s.payer(1), 100)
	for _, h := range []headers{
		nil,
		{"Session-Id", made.SessionID},
		{"Session-Id", "unknown"},
		{"X-Shelby-Micropayment", c.next(10)},
		{"X-Shelby-Micropayment", "nonsense"},
		{"Session-Id", made.SessionID, "X-Shelby-Micropayment", c.again()},
		{"Session-Id", made.SessionID, "Max-Chunksets", "0"},
	} {
		r := s.must(200, "GET", target, nil, h...)
		if string(r.body) != "free" || r.header.Get("Cache-Control") != "no-cache" || r.header.Get("Chunksets-Charged") != "" {
			t.Errorf("GET with %.60q: %v", h, r)
		}
	}
	if head := s.must(200, "HEAD", target, nil); head.header.Get("Chunkset-Price") != "" {
		t.Errorf("HEAD on a free blob has a price: %v", head)
	}
	if got := c.state(); got.Accepted != "0" {
		t.Errorf("a free read was paid for: %s", got.money())
	}
	if left := s.left(made.SessionID); left != "1000" {
		t.Errorf("free reads were deducted from the session: %s left", left)
	}
	// A session can be bought here too, and used explicitly.
	bought := c.buy(3)
	if bought.ChunksetsTotal != 13 {
		t.Errorf("13 units at 1 bought %+v", bought)
	}
	// Anyone who knows a session may add to it.
	for _, id := range []string{bought.SessionID, made.SessionID} {
		other := s.open(s.payer(2), 100)
		before := s.sessionState(id)
		r := asSession(t, s.must(200, "POST", "/v1/sessions", purchaseBody(t, other.next(5), id)))
		if r.ChunksetsTotal != before.ChunksetsTotal+5 || r.ChunksetsLeft != before.ChunksetsLeft+5 || r.SessionID != id {
			t.Errorf("5 units made the session %+v, it was %+v", r, before)
		}
	}
}

// TestPaidReadsRace checks that with a number of chunksets left and more concurrent reads, the
// server serves exactly as many reads as were paid for, completely.
func TestPaidReadsRace(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--reads", "paid"}})
	data := content(1, chunksetSize+2000)
	target := blobTarget("0x1", "raced")
	s.must(204, "PUT", target, data)
	id := s.open(s.payer(1), 1000).buy(61).SessionID
	served := int64(0)
	for _, r := range s.atOnce(100, func(i int) (response, error) {
		h := headers{"Session-Id", id, "Range", "bytes=5-1004"}
		if i%2 == 0 { // two chunksets
			h[3] = fmt.Sprintf("bytes=%d-%d", chunksetSize-500, chunksetSize+499)
		}
		return s.try("GET", target, nil, h...)
	}) {
		if r.status != 206 {
			checkProblem(t, r, 402, "no_chunksets_left")
			continue
		}
		served += number(t, r.header.Get("Chunksets-Charged"))
		if len(r.body) != 1000 || !bytes.Contains(data, r.body) {
			t.Errorf("a paid read returned other bytes")
		}
	}
	if left := s.left(id); fmt.Sprint(61-served) != left || left != "0" {
		t.Errorf("of 61 chunksets %d were served, %s are left", served, left)
	}
}

// TestDamagedReadsCostNothing checks that the server charges nothing for bytes that it cannot
// serve.
func TestDamagedReadsCostNothing(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--reads", "paid"}, damaged: true})
	target := blobTarget("0x1", "damaged")
	data := content(1, 4<<20)
	s.must(204, "PUT", target, data)
	c := s.open(s.payer(1), 1000)
	id := c.buy(100).SessionID
	s.stop()
	s.flipBit(int64(len(data)), 5)
	s.restart()
	for range 3 {
		r, err := s.try("GET", target, nil, "Session-Id", id)
		if err == nil && (r.status != 500 || r.header.Get("Chunksets-Charged") != "") {
			t.Errorf("a read of a damaged blob: %v", r)
		}
	}
	s.eventually("a chunkset that could not be served is not returned", func() bool { return s.left(id) == "100" })
	if r, err := s.try("GET", target, nil, "X-Shelby-Micropayment", c.next(1)); err == nil && r.status != 500 {
		t.Errorf("a read of a damaged blob: %d", r.status)
	}
	s.eventually("the price of a chunkset that could not be served is not returned", func() bool {
		return c.state().money() == "deposit 1000 accepted 101 credit 1 sequence 2 open"
	})
}
