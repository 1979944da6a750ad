package conformance

import (
	"fmt"
	"strconv"
	"strings"

	"sluice/micropay"
)

// chunksetBytes is how many bytes of a blob are one chunkset.
const chunksetBytes = 10 << 20

// paidRead reads a blob without a key, which would read for free.
func (c *trial) paidRead(name string, header ...string) *response {
	return c.without().send(request{method: "GET", target: c.blob(name), header: header})
}

// wantCharge expects how many chunksets a read was charged, and how many are left.
func (r *response) wantCharge(charged, left int) *response {
	return r.wantHeader("Chunksets-Charged", strconv.Itoa(charged)).wantHeader("Chunksets-Left", strconv.Itoa(left))
}

// paidReadCases check the price of reads.
var paidReadCases = needing([]Case{
	{Name: "paid/without-payment", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.put("a", "hello").want(204)
		c.paidRead("a").refused(402, "payment_required").wantPrice()
	}},
	{Name: "paid/by-session", Section: paidReading, Level: Extended, check: func(c *trial) {
		body := content(3000)
		c.put("a", body).want(204)
		_, s := c.sold(2)
		c.paidRead("a", "Session-Id", s.SessionID).want(200).wantBody(body).wantCharge(1, 1)
		c.paidRead("a", "Session-Id", s.SessionID).want(200).wantBody(body).wantCharge(1, 0)
		c.paidRead("a", "Session-Id", s.SessionID).refused(402, "no_chunksets_left").wantPrice()
	}},
	{Name: "paid/by-micropayment", Section: paidReading, Level: Extended, check: func(c *trial) {
		body := content(3000)
		c.put("a", body).want(204)
		ch := c.openChannel(1_000_000)
		c.paidRead("a", "X-Shelby-Micropayment", ch.next(c.price())).want(200).wantBody(body).wantHeader("Chunksets-Charged", "1")
		ch.wantMoney(c.price(), 0)
	}},
	{Name: "paid/excess-is-credit", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.put("a", "hello").want(204)
		ch := c.openChannel(1_000_000)
		c.paidRead("a", "X-Shelby-Micropayment", ch.next(3*c.price()+1)).want(200)
		ch.wantMoney(3*c.price()+1, 2*c.price()+1)
	}},
	{Name: "paid/micropayment-too-small", Section: paidReading, Level: Extended, check: func(c *trial) {
		if c.price() < 2 {
			c.skipf("needs a price above 1")
		}
		c.put("a", "hello").want(204)
		ch := c.openChannel(1_000_000)
		c.paidRead("a", "X-Shelby-Micropayment", ch.next(c.price()-1)).refused(402, "insufficient_funds").wantPrice()
		ch.wantMoney(0, 0)
	}},
	{Name: "paid/greatest-price", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.put("a", "hello").want(204)
		ch := c.openChannel(1_000_000)
		payment := ch.next(c.price())
		c.paidRead("a", "X-Shelby-Micropayment", payment, "Max-Chunkset-Price", strconv.FormatUint(c.price()-1, 10)).refused(402, "price_changed").wantPrice()
		ch.wantMoney(0, 0)
		c.paidRead("a", "X-Shelby-Micropayment", payment, "Max-Chunkset-Price", strconv.FormatUint(c.price(), 10)).want(200)
		ch.wantMoney(c.price(), 0)
	}},
	{Name: "paid/micropayment-stale", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.put("a", "hello").want(204)
		ch := c.openChannel(1_000_000)
		payment := ch.next(c.price())
		c.paidRead("a", "X-Shelby-Micropayment", payment).want(200)
		wantStale(c, c.paidRead("a", "X-Shelby-Micropayment", payment), payment)
	}},
	{Name: "paid/micropayment-malformed", Section: micropayments, Level: Extended, check: func(c *trial) {
		c.put("a", "hello").want(204)
		c.paidRead("a", "X-Shelby-Micropayment", "aGVsbG8=").refused(400, "micropayment_malformed")
	}},
	{Name: "paid/both", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.put("a", "hello").want(204)
		ch, s := c.sold(1)
		c.paidRead("a", "Session-Id", s.SessionID, "X-Shelby-Micropayment", ch.next(c.price())).refused(400, "bad_header")
		ch.wantMoney(c.price(), 0)
	}},
	{Name: "paid/empty-blob-is-free", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.put("a", "").want(204)
		_, s := c.sold(1)
		c.paidRead("a", "Session-Id", s.SessionID).want(200).wantBody("")
		c.wantLeft(s.SessionID, 1)
	}},
	{Name: "paid/not-modified-is-free", Section: paidReading, Level: Extended, check: func(c *trial) {
		etag := c.put("a", content(3000)).want(204).header.Get("ETag")
		_, s := c.sold(1)
		c.paidRead("a", "Session-Id", s.SessionID, "If-None-Match", etag).want(304)
		c.wantLeft(s.SessionID, 1)
	}},
	{Name: "paid/failed-condition-is-free", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.put("a", content(3000)).want(204)
		_, s := c.sold(1)
		c.paidRead("a", "Session-Id", s.SessionID, "If-Match", `"1-0"`).refused(412, "precondition_failed")
		c.wantLeft(s.SessionID, 1)
	}},
	{Name: "paid/unsatisfiable-range-is-free", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.put("a", content(3000)).want(204)
		_, s := c.sold(1)
		c.paidRead("a", "Session-Id", s.SessionID, "Range", "bytes=3000-").refused(416, "range_not_satisfiable").wantHeader("Content-Range", "bytes */3000")
		c.wantLeft(s.SessionID, 1)
	}},
	{Name: "paid/malformed-range", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.put("a", content(3000)).want(204)
		_, s := c.sold(1)
		c.paidRead("a", "Session-Id", s.SessionID, "Range", "bytes=2-1").refused(416, "range_not_satisfiable")
		c.wantLeft(s.SessionID, 1)
	}},
	{Name: "paid/absent-is-free", Section: paidReading, Level: Extended, check: func(c *trial) {
		_, s := c.sold(1)
		c.paidRead("a", "Session-Id", s.SessionID).refused(404, "blob_not_found")
		c.wantLeft(s.SessionID, 1)
	}},
	{Name: "paid/range", Section: paidReading, Level: Extended, check: func(c *trial) {
		body := content(3000)
		c.put("a", body).want(204)
		_, s := c.sold(1)
		c.paidRead("a", "Session-Id", s.SessionID, "Range", "bytes=5-7").want(206).wantBody(body[5:8]).wantCharge(1, 0)
	}},
	{Name: "paid/two-ranges-of-a-chunkset", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.put("a", content(3000)).want(204)
		_, s := c.sold(1)
		c.paidRead("a", "Session-Id", s.SessionID, "Range", "bytes=0-9,100-109").want(206).wantCharge(1, 0)
	}},
	{Name: "paid/several-chunksets", Section: paidReading, Level: Extended, check: func(c *trial) {
		body := content(chunksetBytes + 100)
		c.put("a", body).want(204)
		_, s := c.sold(6)
		for _, read := range []struct{ first, last, charged, left int }{
			{0, chunksetBytes - 1, 1, 5}, {chunksetBytes, chunksetBytes + 99, 1, 4}, {chunksetBytes - 1, chunksetBytes, 2, 2},
		} {
			r := c.paidRead("a", "Session-Id", s.SessionID, "Range", fmt.Sprintf("bytes=%d-%d", read.first, read.last)).want(206)
			r.wantCharge(read.charged, read.left).wantBody(body[read.first : read.last+1])
		}
		c.paidRead("a", "Session-Id", s.SessionID).want(200).wantCharge(2, 0)
	}},
	{Name: "paid/not-enough-for-all", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.put("a", content(chunksetBytes+1)).want(204)
		_, s := c.sold(1)
		p := c.paidRead("a", "Session-Id", s.SessionID).refused(402, "no_chunksets_left").problem()
		if fmt.Sprint(p.Required) != "2" || fmt.Sprint(p.Available) != "1" {
			c.fatalf("required is %v and available %v, want 2 and 1", p.Required, p.Available)
		}
		c.wantLeft(s.SessionID, 1)
	}},
	{Name: "paid/max-chunksets", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.put("a", content(chunksetBytes+1)).want(204)
		_, s := c.sold(2)
		c.paidRead("a", "Session-Id", s.SessionID, "Max-Chunksets", "1").refused(402, "charge_above_limit").wantPrice()
		c.wantLeft(s.SessionID, 2)
		c.paidRead("a", "Session-Id", s.SessionID, "Max-Chunksets", "2").want(200).wantCharge(2, 0)
	}},
	{Name: "paid/head-is-free", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.put("a", content(3000)).want(204)
		r := c.without().send(request{method: "HEAD", target: c.blob("a")}).want(200).wantLength(3000)
		r.wantHeader("Chunkset-Price", c.info.Payment.ChunksetPrice).wantHeader("Chunksets-Required", "1")
	}},
	{Name: "paid/head-of-tiny-blob", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.put("a", "0123456789abcdef").want(204)
		c.without().send(request{method: "HEAD", target: c.blob("a")}).want(200).wantNo("ETag", "Repr-Digest")
		c.put("b", "0123456789abcdefg").want(204)
		c.without().send(request{method: "HEAD", target: c.blob("b")}).want(200).wantMatch("ETag", `".+"`)
	}},
	{Name: "paid/tiny-blob-ignores-conditions", Section: paidReading, Level: Extended, check: func(c *trial) {
		etag := c.put("a", "0123456789").want(204).header.Get("ETag")
		_, s := c.sold(1)
		c.paidRead("a", "Session-Id", s.SessionID, "If-None-Match", etag).want(200).wantBody("0123456789")
	}},
	{Name: "paid/no-cache-stores-it", Section: caching, Level: Extended, check: func(c *trial) {
		c.put("a", content(3000), "Cache-Control", "max-age=60").want(204)
		_, s := c.sold(1)
		c.paidRead("a", "Session-Id", s.SessionID).want(200).wantHeader("Cache-Control", "private, no-store")
	}},
	{Name: "paid/unknown-session", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.put("a", "hello").want(204)
		c.paidRead("a", "Session-Id", "AAAAAAAAAAAAAAAAAAAAAAAAAA").refused(402, "session_not_found").wantPrice()
	}},
	{Name: "paid/unknown-session-before-blob", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.paidRead("absent", "Session-Id", "AAAAAAAAAAAAAAAAAAAAAAAAAA").refused(402, "session_not_found")
	}},
	{Name: "paid/absent-before-payment", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.paidRead("absent").refused(404, "blob_not_found")
	}},
	{Name: "paid/unknown-channel", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.put("a", "hello").want(204)
		ch := c.openChannel(1_000_000)
		ch.number++
		c.paidRead("a", "X-Shelby-Micropayment", ch.next(c.price())).refused(402, "channel_not_found")
	}},
	{Name: "paid/closed-channel", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.put("a", "hello").want(204)
		ch := c.openChannel(1_000_000)
		c.post(ch.target("/close"), "").want(200)
		c.paidRead("a", "X-Shelby-Micropayment", ch.next(c.price())).refused(402, "channel_closed")
	}},
	{Name: "paid/at-once", Section: paidReading, Level: Extended, check: func(c *trial) {
		c.put("a", "hello").want(204)
		_, s := c.sold(3)
		statuses := c.atOnce(6, func(c *trial) *response { return c.paidRead("a", "Session-Id", s.SessionID) })
		if statuses[200] != 3 || statuses[402] != 3 {
			c.fatalf("6 concurrent reads with 3 chunksets get %v, want 200 three times and 402 three times", statuses)
		}
	}},
	{Name: "paid/session-must-be-bought", Section: sessions, Level: Extended, check: func(c *trial) {
		c.without().post(sessionsTarget, "{}").refused(402, "payment_required").wantPrice()
	}},
}, paidReads, booksInLedger)

// wantLeft expects how many chunksets a session has left.
func (c *trial) wantLeft(id string, want int64) {
	if left := c.left(id); left != want {
		c.fatalf("the session has %d chunksets left, want %d", left, want)
	}
}

var wrongMaximumCases = needing(rows("paid/max-chunksets-malformed", paidReading, Extended, []string{"-1", "x", "1.5"}, func(value string) string { return value }, func(c *trial, value string) {
	c.put("a", "hello").want(204)
	_, s := c.sold(1)
	c.paidRead("a", "Session-Id", s.SessionID, "Max-Chunksets", value).refused(400, "bad_header")
	c.wantLeft(s.SessionID, 1)
}), paidReads, booksInLedger)

// paidOrder is a read that several checks could refuse, and the one that must. In its headers
// SESSION is a session without chunksets, STALE a stale micropayment, LIVE one that pays for too
// little, NOWHERE one of an unknown channel, and ETAG the blob's ETag.
type paidOrder struct {
	name, blob string
	header     []string
	status     int
	code       string
}

var paidOrderCases = needing(rows("paid/order", paidReading, Extended, []paidOrder{
	{"two-sessions", "here", []string{"Session-Id", "SESSION", "Session-Id", "SESSION"}, 400, "bad_header"},
	{"both-before-session", "absent", []string{"Session-Id", "unknown", "X-Shelby-Micropayment", "AAAA"}, 400, "bad_header"},
	{"maximum-before-session", "absent", []string{"Max-Chunksets", "-1", "Session-Id", "unknown"}, 400, "bad_header"},
	{"two-maxima", "here", []string{"Max-Chunksets", "1", "Max-Chunksets", "1", "Session-Id", "SESSION"}, 400, "bad_header"},
	{"empty-maximum", "here", []string{"Max-Chunksets", "", "Session-Id", "SESSION"}, 400, "bad_header"},
	{"session-before-blob", "absent", []string{"Session-Id", "unknown"}, 402, "session_not_found"},
	{"empty-session", "absent", []string{"Session-Id", ""}, 402, "session_not_found"},
	{"payment-before-blob", "absent", []string{"X-Shelby-Micropayment", "AAAA"}, 400, "micropayment_malformed"},
	{"empty-payment", "absent", []string{"X-Shelby-Micropayment", ""}, 400, "micropayment_malformed"},
	{"channel-before-blob", "absent", []string{"X-Shelby-Micropayment", "NOWHERE"}, 402, "channel_not_found"},
	{"blob-before-price", "absent", nil, 404, "blob_not_found"},
	{"blob-before-charge", "absent", []string{"Session-Id", "SESSION"}, 404, "blob_not_found"},
	{"blob-before-sequence", "absent", []string{"X-Shelby-Micropayment", "STALE"}, 404, "blob_not_found"},
	{"session-before-condition", "here", []string{"Session-Id", "unknown", "If-None-Match", "ETAG"}, 402, "session_not_found"},
	{"condition-before-charge", "here", []string{"Session-Id", "SESSION", "If-None-Match", "ETAG"}, 304, ""},
	{"condition-before-sequence", "here", []string{"X-Shelby-Micropayment", "STALE", "If-None-Match", "ETAG"}, 304, ""},
	{"condition-before-range", "here", []string{"Session-Id", "SESSION", "If-Match", `"x"`, "Range", "bytes=9-1"}, 412, "precondition_failed"},
	{"range-before-charge", "here", []string{"Session-Id", "SESSION", "Range", "bytes=99999999-"}, 416, "range_not_satisfiable"},
	{"range-before-sequence", "here", []string{"X-Shelby-Micropayment", "STALE", "Range", "bytes=9-1"}, 416, "range_not_satisfiable"},
	{"range-before-maximum", "here", []string{"Session-Id", "SESSION", "Range", "bytes=9-1", "Max-Chunksets", "0"}, 416, "range_not_satisfiable"},
	{"too-many-ranges", "here", []string{"Session-Id", "SESSION", "Range", "bytes=" + strings.TrimSuffix(strings.Repeat("0-0,", 65), ",")}, 416, "range_not_satisfiable"},
	{"empty-session-has-nothing-left", "here", []string{"Session-Id", "SESSION", "Range", "bytes=0-0"}, 402, "no_chunksets_left"},
	{"maximum-before-funds", "here", []string{"Session-Id", "SESSION", "Max-Chunksets", "0"}, 402, "charge_above_limit"},
	{"maximum-before-payment", "here", []string{"X-Shelby-Micropayment", "LIVE", "Max-Chunksets", "0"}, 402, "charge_above_limit"},
	{"sequence-before-funds", "here", []string{"X-Shelby-Micropayment", "STALE", "Max-Chunksets", "1"}, 409, "micropayment_stale"},
	{"funds", "here", []string{"X-Shelby-Micropayment", "LIVE", "Max-Chunksets", "1"}, 402, "insufficient_funds"},
}, func(o paidOrder) string { return o.name }, func(c *trial, o paidOrder) {
	if c.price() < 2 {
		c.skipf("needs a price above 1")
	}
	etag := c.put("here", content(3000)).want(204).header.Get("ETag")
	ch, s := c.sold(1)
	c.use(s.SessionID).want(200)
	stale := ch.sign().Base64()
	live := ch.sign(func(p *micropay.Payment) { p.Sequence, p.Amount = p.Sequence+1, p.Amount+1 }).Base64()
	nowhere := ch.sign(func(p *micropay.Payment) { p.PaymentChannelID++ }).Base64()
	header := []string{}
	for _, text := range o.header {
		header = append(header, strings.NewReplacer("SESSION", s.SessionID, "STALE", stale, "LIVE", live, "NOWHERE", nowhere, "ETAG", etag).Replace(text))
	}
	r := c.paidRead(o.blob, header...).want(o.status)
	if o.code != "" {
		r.refused(o.status, o.code)
	}
	if r.status == 402 && strings.Contains(r.body, ch.id) {
		r.fatalf("the response reveals the channelId")
	}
	ch.wantMoney(c.price(), 0)
	c.wantLeft(s.SessionID, 0)
}), paidReads, booksInLedger)

// freeReadCases check that payments are ignored where reads are public.
var freeReadCases = needing(rows("paid/ignored", paidReading, Extended, [][]string{
	{"Session-Id", "unknown"}, {"X-Shelby-Micropayment", "nonsense"}, {"Session-Id", "unknown", "X-Shelby-Micropayment", "nonsense"},
	{"Session-Id", "unknown", "Max-Chunksets", "0"},
}, func(header []string) string { return strings.ToLower(strings.Join(header, "-")) }, func(c *trial, header []string) {
	c.put("a", "free").want(204)
	c.get("a", header...).want(200).wantBody("free").wantNo("Chunksets-Charged")
	c.head("a").want(200).wantNo("Chunkset-Price")
}), publicReads)

// faucetTarget is where a local instance with paid reads opens channels for everyone.
const faucetTarget = "/v1/local/faucet"

var faucetCases = needing([]Case{
	{Name: "faucet/opens", Section: faucetSection, Level: Extended, check: func(c *trial) {
		signer := c.newPayer()
		ch := c.opened(signer, c.post(faucetTarget, `{"sender": "`+signer.Address().String()+`", "amount": "1000"}`))
		if state := ch.state(); ch.number != 1 || state.Deposit != "1000" || state.Sender != signer.Address().String() || len(state.Sessions) != 0 {
			c.fatalf("the faucet's channel is %+v, want the payer's first with a deposit of 1000 and no session", state)
		}
		c.buy(ch.next(c.price()), "").want(201)
	}},
	{Name: "faucet/adds", Section: faucetSection, Level: Extended, check: func(c *trial) {
		body := `{"sender": "` + c.newPayer().Address().String() + `", "amount": "1000"}`
		first := c.opened(nil, c.post(faucetTarget, body))
		if state := c.changed(c.post(faucetTarget, body)); state.ChannelID != first.id || state.Deposit != "2000" {
			c.fatalf("a second amount makes the channel %+v, want a deposit of 2000 in %s", state, first.id)
		}
	}},
	{Name: "faucet/next-channel", Section: faucetSection, Level: Extended, check: func(c *trial) {
		body := `{"sender": "` + c.newPayer().Address().String() + `", "amount": "1000"}`
		first := c.opened(nil, c.post(faucetTarget, body))
		c.post(first.target("/close"), "").want(200)
		if second := c.opened(nil, c.post(faucetTarget, body)); second.number != 2 {
			c.fatalf("after the payer's first channel was closed, the faucet opens number %d, want 2", second.number)
		}
	}},
	{Name: "faucet/refused", Section: faucetSection, Level: Extended, check: func(c *trial) {
		c.post(faucetTarget, `{"sender": "alice", "amount": "1000"}`).want(400)
		c.post(faucetTarget, `{"amount": "1000"}`).want(400)
		c.post(faucetTarget, `{"sender": "0x1", "amount": "-1"}`).want(400)
	}},
}, localInstance, paidReads, booksInLedger)

var noFaucetCases = needing([]Case{
	{Name: "faucet/absent", Section: faucetSection, Level: Extended, check: func(c *trial) {
		c.post(faucetTarget, `{"sender": "0x1", "amount": "1000"}`).refused(404, "route_not_found")
	}},
}, localInstance, publicReads)
