package conformance

import (
	"encoding/base64"
	"strconv"
	"time"

	"sluice/micropay"
)

// micropaymentCases check the sale for a micropayment.
var micropaymentCases = needing([]Case{
	{Name: "pay/buys-a-session", Section: micropayments, Level: Extended, check: func(c *trial) {
		ch, s := c.sold(3)
		state := ch.wantMoney(3*c.price(), 0)
		if len(state.Sessions) != 1 || state.Sessions[0].SessionID != s.SessionID || state.Sessions[0].ChunksetsLeft != 3 || state.SequenceNumber != "1" {
			c.fatalf("after one payment the channel is %+v, want the session %s and the sequence number 1", state, s.SessionID)
		}
	}},
	{Name: "pay/settled-in-the-ledger", Section: micropayments, Level: Extended, check: func(c *trial) {
		ch, _ := c.sold(3)
		for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			state := ch.state()
			if state.Settled == state.Accepted && state.Unsettled == "0" {
				return
			}
			if time.Now().After(deadline) {
				c.fatalf("%s of %s are not settled after 5 seconds", state.Unsettled, state.Accepted)
			}
		}
	}},
	{Name: "pay/rest-is-credit", Section: micropayments, Level: Extended, check: func(c *trial) {
		if c.price() < 2 {
			c.skipf("needs a price above 1")
		}
		ch := c.openChannel(1_000_000)
		if s := c.buy(ch.next(3*c.price()-1), "").want(201).session(); s.ChunksetsTotal != 2 {
			c.fatalf("one unit less than the price of 3 chunksets has bought %d", s.ChunksetsTotal)
		}
		ch.wantMoney(3*c.price()-1, c.price()-1)
		if s := c.buy(ch.next(1), "").want(201).session(); s.ChunksetsTotal != 1 {
			c.fatalf("one unit more has bought %d chunksets, want the one that was missing", s.ChunksetsTotal)
		}
		ch.wantMoney(3*c.price(), 0)
	}},
	{Name: "pay/adds-to-a-session", Section: sessions, Level: Extended, check: func(c *trial) {
		ch, s := c.sold(2)
		more := c.buy(ch.next(3*c.price()), s.SessionID).want(200).session()
		if more.SessionID != s.SessionID || more.ChunksetsLeft != 5 || more.ChunksetsTotal != 5 {
			c.fatalf("3 chunksets more make %+v, want 5 in the same session", more)
		}
	}},
	{Name: "pay/adds-to-unknown-session", Section: micropayments, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1_000_000)
		c.buy(ch.next(c.price()), "AAAAAAAAAAAAAAAAAAAAAAAAAA").refused(404, "session_not_found")
		ch.wantMoney(0, 0)
	}},
	{Name: "pay/identity", Section: sessions, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1_000_000)
		s := c.without().post(sessionsTarget, `{"userIdentity": "someone", "micropaymentUpdate": `+quoted(ch.next(c.price()))+"}").want(201).session()
		if s.UserIdentity != "someone" {
			c.fatalf("the session's userIdentity is %q, want someone", s.UserIdentity)
		}
	}},
	{Name: "pay/stale", Section: micropayments, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1_000_000)
		first := ch.next(c.price())
		c.buy(first, "").want(201)
		wantStale(c, c.buy(first, ""), first)
		ch.wantMoney(c.price(), 0)
	}},
	{Name: "pay/stale-sequence", Section: micropayments, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1_000_000)
		first := ch.next(c.price())
		c.buy(first, "").want(201)
		ch.sequence--
		wantStale(c, c.buy(ch.next(c.price()), ""), first)
	}},
	{Name: "pay/stale-amount", Section: micropayments, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1_000_000)
		first := ch.next(c.price())
		c.buy(first, "").want(201)
		wantStale(c, c.buy(ch.next(0), ""), first)
	}},
	{Name: "pay/sequence-may-skip", Section: micropayments, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1_000_000)
		ch.sequence = 41
		c.buy(ch.next(c.price()), "").want(201)
		if state := ch.state(); state.SequenceNumber != "42" {
			c.fatalf("the sequence number is %s, want 42", state.SequenceNumber)
		}
	}},
	{Name: "pay/too-little", Section: micropayments, Level: Extended, check: func(c *trial) {
		if c.price() < 2 {
			c.skipf("needs a price above 1")
		}
		ch := c.openChannel(1_000_000)
		c.buy(ch.next(c.price()-1), "").refused(402, "insufficient_funds").wantPrice()
		ch.wantMoney(0, 0)
	}},
	{Name: "pay/greatest-price", Section: micropayments, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1_000_000)
		payment := ch.next(c.price())
		below, price := strconv.FormatUint(c.price()-1, 10), strconv.FormatUint(c.price(), 10)
		for _, malformed := range []string{"", "-1", "1.5", "9223372036854775808"} {
			c.buy(payment, "", "Max-Chunkset-Price", malformed).refused(400, "bad_header")
		}
		c.buy(payment, "", "Max-Chunkset-Price", below).refused(402, "price_changed").wantPrice()
		ch.wantMoney(0, 0)
		first := c.buy(payment, "", "Max-Chunkset-Price", price, "Idempotency-Key", "price-"+ch.id).want(201)
		c.buy(payment, "", "Max-Chunkset-Price", price, "Idempotency-Key", "price-"+ch.id).want(201).wantBody(first.body)
		ch.wantMoney(c.price(), 0)
	}},
	{Name: "pay/above-the-deposit", Section: micropayments, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(int64(2 * c.price()))
		c.buy(ch.next(2*c.price()+1), "").refused(402, "insufficient_funds").wantPrice()
		ch.wantMoney(0, 0)
	}},
	{Name: "pay/the-whole-deposit", Section: micropayments, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(int64(2 * c.price()))
		c.buy(ch.next(2*c.price()), "").want(201)
		ch.wantMoney(2*c.price(), 0)
	}},
	{Name: "pay/after-a-deposit", Section: channels, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(int64(c.price()))
		c.post(ch.target("/deposit"), `{"amount": "`+strconv.FormatUint(c.price(), 10)+`"}`).want(200)
		c.buy(ch.next(2*c.price()), "").want(201)
	}},
	{Name: "pay/unknown-channel", Section: micropayments, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1_000_000)
		ch.number++
		c.buy(ch.next(c.price()), "").refused(404, "channel_not_found")
	}},
	{Name: "pay/other-payer", Section: micropayments, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1_000_000)
		ch.signer = c.newPayer()
		c.buy(ch.next(c.price()), "").refused(404, "channel_not_found")
		ch.wantMoney(0, 0)
	}},
	{Name: "pay/closed-channel", Section: micropayments, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1_000_000)
		c.post(ch.target("/close"), "").want(200)
		c.buy(ch.next(c.price()), "").refused(410, "channel_closed")
	}},
	{Name: "pay/idempotency-key", Section: sessions, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1_000_000)
		payment, key := ch.next(2*c.price()), []string{"Idempotency-Key", "pay-" + ch.id}
		first := c.buy(payment, "", key...).want(201)
		c.buy(payment, "", key...).want(201).wantBody(first.body)
		c.buy(ch.next(c.price()), "", key...).refused(422, "idempotency_key_reused")
		ch.wantMoney(2*c.price(), 0)
	}},
	{Name: "pay/refusal-is-not-remembered", Section: sessions, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(int64(c.price()))
		payment, key := ch.next(2*c.price()), []string{"Idempotency-Key", "refused-" + ch.id}
		c.buy(payment, "", key...).refused(402, "insufficient_funds")
		c.post(ch.target("/deposit"), `{"amount": "`+strconv.FormatUint(c.price(), 10)+`"}`).want(200)
		c.buy(payment, "", key...).want(201)
	}},
	{Name: "pay/same-payment-at-once", Section: micropayments, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1_000_000)
		payment := ch.next(2 * c.price())
		if statuses := c.atOnce(4, func(c *trial) *response { return c.buy(payment, "") }); statuses[201] != 1 || statuses[409] != 3 {
			c.fatalf("4 concurrent requests with one payment get %v, want one 201 and three 409", statuses)
		}
		ch.wantMoney(2*c.price(), 0)
	}},
	{Name: "pay/same-key-at-once", Section: sessions, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1_000_000)
		payment := ch.next(2 * c.price())
		if statuses := c.atOnce(4, func(c *trial) *response { return c.buy(payment, "", "Idempotency-Key", "at-once-"+ch.id) }); statuses[201] != 4 {
			c.fatalf("4 concurrent requests with one Idempotency-Key get %v, want 201 for all", statuses)
		}
		if state := ch.wantMoney(2*c.price(), 0); len(state.Sessions) != 1 {
			c.fatalf("they have made %d sessions, want 1", len(state.Sessions))
		}
	}},
	{Name: "pay/number-too-large", Section: micropayments, Level: Extended, check: func(c *trial) {
		c.buy(c.openChannel(1_000_000).next(1<<63), "").refused(400, "number_too_large")
	}},
	{Name: "pay/malformed-before-state", Section: micropayments, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1_000_000)
		ch.number++ // an unknown channel
		c.buy(ch.next(c.price(), func(p *micropay.Payment) { p.ChainID++ }), "").refusedBecause(402, "micropayment_refused", "wrong_chain")
	}},
	{Name: "sold/uses", Section: sessions, Level: Extended, check: func(c *trial) {
		_, s := c.sold(2)
		c.use(s.SessionID).want(200).wantBody("").wantHeader("Chunksets-Left", "1")
		c.use(s.SessionID).want(200).wantHeader("Chunksets-Left", "0")
		c.use(s.SessionID).refused(402, "no_chunksets_left").wantPrice()
		if left := c.left(s.SessionID); left != 0 {
			c.fatalf("the session has %d chunksets left, want 0", left)
		}
	}},
	{Name: "sold/uses-at-once", Section: sessions, Level: Extended, check: func(c *trial) {
		_, s := c.sold(5)
		if statuses := c.atOnce(8, func(c *trial) *response { return c.use(s.SessionID) }); statuses[200] != 5 || statuses[402] != 3 {
			c.fatalf("8 concurrent uses of 5 chunksets get %v, want 200 five times and 402 three times", statuses)
		}
	}},
	{Name: "sold/use-once", Section: sessions, Level: Extended, check: func(c *trial) {
		_, s := c.sold(3)
		for range 3 {
			c.use(s.SessionID, "Idempotency-Key", "use-"+s.SessionID).want(200).wantHeader("Chunksets-Left", "2")
		}
		if left := c.left(s.SessionID); left != 2 {
			c.fatalf("the session has %d chunksets left, want 2: the use was repeated with its Idempotency-Key", left)
		}
	}},
}, booksInLedger)

// wantPrice expects that a 402 has the price of a chunkset.
func (r *response) wantPrice() *response {
	if r.problem().ChunksetPrice == "" {
		r.fatalf("a 402 must have chunksetPrice: %s", printable(r.body))
	}
	return r
}

// wantStale expects the response to a stale micropayment, which has the accepted one.
func wantStale(c *trial, r *response, accepted string) {
	if stored := r.refused(409, "micropayment_stale").problem().StoredMicropayment; stored != accepted {
		c.fatalf("storedMicropayment is not the accepted micropayment: %s", shortened(stored, 60))
	}
}

// newPayer returns the signer of a fresh account in the form of the public client.
func (c *trial) newPayer() *micropay.Signer {
	return newSigner(c, micropay.SchemeEd25519, micropay.KeyEd25519)
}

// newSigner returns the signer of a fresh account with one key.
func newSigner(c *trial, scheme micropay.Scheme, keyType micropay.KeyType) *micropay.Signer {
	s, err := micropay.NewSigner(scheme, newKey(c, keyType))
	c.ok(err)
	return s
}

func newKey(c *trial, keyType micropay.KeyType) micropay.PrivateKey {
	key, err := micropay.NewPrivateKey(keyType, randomBytes(32))
	c.ok(err)
	return key
}

// signature is a kind of account whose payments are accepted.
type signature struct {
	name   string
	signer func(*trial) *micropay.Signer
}

var signatureCases = needing(rows("pay/signed", micropayments, Extended, []signature{
	{"ed25519", func(c *trial) *micropay.Signer { return c.newPayer() }},
	{"single-ed25519", func(c *trial) *micropay.Signer {
		return newSigner(c, micropay.SchemeSingleKey, micropay.KeyEd25519)
	}},
	{"single-secp256k1", func(c *trial) *micropay.Signer {
		return newSigner(c, micropay.SchemeSingleKey, micropay.KeySecp256k1)
	}},
	{"multi-ed25519", func(c *trial) *micropay.Signer {
		return severalKeys(c, micropay.SchemeMultiEd25519, micropay.KeyEd25519)
	}},
	{"multi-key", func(c *trial) *micropay.Signer {
		return severalKeys(c, micropay.SchemeMultiKey, micropay.KeySecp256k1)
	}},
}, func(s signature) string { return s.name }, func(c *trial, s signature) {
	ch := c.openChannelOf(s.signer(c), 1_000_000)
	c.buy(ch.next(c.price()), "").want(201)
	ch.wantMoney(c.price(), 0)
}), booksInLedger)

// form is how a transaction wraps the payment.
type form struct {
	name string
	form micropay.Form
}

var formCases = needing(rows("pay/form", micropayments, Extended, []form{
	{"nonce", micropay.FormNonce}, {"sequence", micropay.FormSequence}, {"plain", micropay.FormPlain},
}, func(f form) string { return f.name }, func(c *trial, f form) {
	ch := c.openChannel(1_000_000)
	c.buy(ch.next(c.price(), func(p *micropay.Payment) {
		if p.Form = f.form; f.form != micropay.FormNonce {
			p.Nonce, p.AccountSequence = 0, 1
		}
	}), "").want(201)
}), booksInLedger)

// wrongTerms is a payment that this server must not accept.
type wrongTerms struct {
	name, reason string
	change       func(*micropay.Payment)
}

var wrongTermsCases = needing(rows("pay/refused", micropayments, Extended, []wrongTerms{
	{"receiver", "wrong_receiver", func(p *micropay.Payment) { p.Receiver[31]++ }},
	{"asset", "wrong_asset", func(p *micropay.Payment) { p.Asset[31]++ }},
	{"module", "wrong_module_address", func(p *micropay.Payment) { p.ModuleAddress[31]++ }},
	{"chain", "wrong_chain", func(p *micropay.Payment) { p.ChainID++ }},
	{"expired", "expired", func(p *micropay.Payment) { p.Expiration = uint64(time.Now().Unix()) - 60 }},
}, func(w wrongTerms) string { return w.name }, func(c *trial, w wrongTerms) {
	ch := c.openChannel(1_000_000)
	c.buy(ch.next(c.price(), w.change), "").refusedBecause(402, "micropayment_refused", w.reason)
	ch.wantMoney(0, 0)
}), booksInLedger)

// damage changes a payment's bytes after it was signed.
type damage struct {
	name         string
	status       int
	code, reason string
	change       func(payment []byte) []byte
}

var damageCases = needing(rows("pay/damaged", micropayments, Extended, []damage{
	{"truncated", 400, "micropayment_malformed", "truncated", func(p []byte) []byte { return p[:len(p)-1] }},
	{"longer", 400, "micropayment_malformed", "trailing_bytes", func(p []byte) []byte { return append(p, 0) }},
	{"payload", 400, "micropayment_malformed", "payload", func(p []byte) []byte { return flipped(p, 40, 7) }},
	{"module-name", 400, "micropayment_malformed", "module_name", func(p []byte) []byte { return flipped(p, 76, 1) }},
	{"function-name", 400, "micropayment_malformed", "function_name", func(p []byte) []byte { return flipped(p, 90, 1) }},
	{"fee-payer", 400, "micropayment_malformed", "fee_payer", func(p []byte) []byte { return flipped(p, 270, 1) }},
	{"too-long", 400, "micropayment_malformed", "too_long", func([]byte) []byte { return make([]byte, 10_000) }},
	{"amount", 402, "micropayment_refused", "bad_signature", func(p []byte) []byte { return flipped(p, 111, 1) }},
	{"sender", 402, "micropayment_refused", "wrong_signer", func(p []byte) []byte { return flipped(p, 0, 1) }},
	{"signature", 402, "micropayment_refused", "bad_signature", func(p []byte) []byte { return flipped(p, len(p)-20, 1) }},
}, func(d damage) string { return d.name }, func(c *trial, d damage) {
	ch := c.openChannel(1_000_000)
	r := c.buy(base64.StdEncoding.EncodeToString(d.change(decoded(ch.next(c.price())))), "")
	if p := r.refused(d.status, d.code).problem(); p.Reason == "" || d.reason != "" && p.Reason != d.reason {
		c.fatalf("the reason is %q, want %q", p.Reason, d.reason)
	}
	ch.wantMoney(0, 0)
}), booksInLedger)

// flipped returns the bytes with some bits of one of them flipped.
func flipped(payment []byte, at int, bits byte) []byte {
	payment[at] ^= bits
	return payment
}

var notPaymentCases = needing(rows("pay/malformed", micropayments, Extended, [][2]string{
	{"not-base64", "§"}, {"url-base64", "__--"}, {"empty-bytes", "===="}, {"text", "aGVsbG8="}, {"zeros", base64.StdEncoding.EncodeToString(make([]byte, 300))},
}, func(r [2]string) string { return r[0] }, func(c *trial, r [2]string) {
	if r := c.buy(r[1], "").refused(400, "micropayment_malformed"); r.problem().Reason == "" {
		r.fatalf("there is no reason: %s", printable(r.body))
	}
}), booksInLedger)

// severalKeys returns the signer of an account with three keys; two of them sign.
func severalKeys(c *trial, scheme micropay.Scheme, last micropay.KeyType) *micropay.Signer {
	keys := []micropay.PrivateKey{newKey(c, micropay.KeyEd25519), newKey(c, micropay.KeyEd25519), newKey(c, last)}
	signer, err := micropay.NewMultiSigner(scheme, []micropay.PublicKey{keys[0].Public(), keys[1].Public(), keys[2].Public()}, 2, keys[0], keys[2])
	c.ok(err)
	return signer
}
