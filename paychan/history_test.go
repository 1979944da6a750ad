package paychan_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"sluice/database"
	"sluice/ledger"
	"sluice/micropay"
	"sluice/paychan"
)

// history performs the same operations on a shop and on the model.
type history struct {
	*shop
	model   *model
	payers  []payer
	sent    []sent
	keyed   []*keyed
	returns []returned
	names   int
}

// sent is a micropayment that was signed, accepted or not.
type sent struct {
	text    string
	payer   payer
	signed  micropay.Payment
	payment ledger.Payment // the expected result of Verify
}

// keyed is a purchase under an idempotency key.
type keyed struct {
	idem    database.Idempotency
	buy     paychan.BuyOptions
	outcome *ledger.Session // nil if refused
	at      time.Time       // when it ended
}

// returned is a return of chunksets that took effect.
type returned struct {
	session, channel string // the return that was made
	n                int64
	request          string
	at               time.Time
}

func newHistory(t *rapid.T, path string) *history {
	c := newClock()
	opt := options()
	opt.UnsettledLimit = 60
	h := &history{
		shop:   &shop{t: t, path: path, opt: opt, clock: c, now: c.Now},
		model:  &model{now: c.Now(), price: opt.Price, limit: opt.UnsettledLimit},
		payers: []payer{newPayer(t, 1), newPayer(t, 2)},
	}
	h.start()
	return h
}

// agree ends the history if a result differs from the model's.
func (h *history) agree(t *rapid.T, got any, gotErr error, want any, wantErr error) {
	t.Helper()
	if !sameRefusal(gotErr, wantErr) {
		t.Fatalf("error %v, want %v", gotErr, wantErr)
	}
	if gotErr == nil && !reflect.DeepEqual(got, want) {
		t.Fatalf("\n got %+v\nwant %+v", got, want)
	}
}

// seldom returns true about once in ten times.
func seldom(t *rapid.T, label string) bool { return rapid.IntRange(0, 9).Draw(t, label) == 6 }

// name returns a new unique name.
func (h *history) name() string {
	h.names++
	return fmt.Sprint("name ", h.names)
}

func (h *history) open(t *rapid.T) {
	var sender string
	if i := rapid.IntRange(0, len(h.payers)).Draw(t, "sender"); i < len(h.payers) {
		sender = h.payers[i].address()
	}
	number := rapid.Int64Range(0, 2).Draw(t, "number")
	deposit := rapid.SampledFrom([]int64{1_000, 300, 20, 0}).Draw(t, "deposit")
	ttl := rapid.SampledFrom([]time.Duration{90 * 24 * time.Hour, 24 * time.Hour, time.Minute}).Draw(t, "ttl")
	got, err := h.Open(t.Context(), paychan.OpenOptions{Sender: sender, PaymentChannelID: &number, Deposit: &deposit, Expires: h.model.now.Add(ttl)}, nil)
	want := ledger.Channel{
		ID: got.ID, PaymentChannelID: number, Sender: sender, Receiver: h.opt.Receiver, Asset: h.opt.Asset, Deposit: deposit,
		Created: h.model.now, Expires: h.model.now.Add(ttl),
	}
	h.agree(t, got, err, want, h.model.open(want))
}

// send signs a micropayment close to the amount due in its channel.
func (h *history) send(t *rapid.T) sent {
	s := sent{payer: h.payers[rapid.IntRange(0, len(h.payers)-1).Draw(t, "payer")]}
	number := rapid.Int64Range(0, 2).Draw(t, "number")
	var c ledger.Channel // the channel that it is for
	if n := len(h.model.channels); n > 0 && !seldom(t, "astray") {
		c = h.model.channels[rapid.IntRange(0, n-1).Draw(t, "for")].Channel
		number = c.PaymentChannelID
		for _, p := range h.payers {
			if p.address() == c.Sender {
				s.payer = p
			}
		}
	}
	most := min(c.Deposit, math.MaxInt64-1)
	amount := rapid.OneOf(
		rapid.Int64Range(c.Accepted+1, c.Accepted+20),
		rapid.Int64Range(c.Accepted+1, c.Accepted+20),
		rapid.Int64Range(max(0, c.Accepted-3), c.Accepted+70),
		rapid.Int64Range(most, most+1),
	).Draw(t, "amount")
	sequence := rapid.OneOf(rapid.Just(c.Sequence+1), rapid.Int64Range(max(0, c.Sequence-1), c.Sequence+3)).Draw(t, "sequence")
	s.signed = promise(h.model.now, uint64(number), uint64(sequence), uint64(amount))
	s.signed.Expiration += rapid.SampledFrom([]uint64{0, 0, 3_600}).Draw(t, "longer")
	s.text = s.payer.sign(t, s.signed)
	s.payment = ledger.Payment{
		Sender: s.payer.address(), Receiver: h.opt.Receiver, Asset: h.opt.Asset,
		PaymentChannelID: number, Sequence: sequence, Amount: amount,
		Expires: time.Unix(int64(s.signed.Expiration), 0).UTC(),
	}
	h.sent = append(h.sent, s)
	return s
}

// verify calls Verify, as the service does first with each micropayment. It reports whether the
// payment has not expired.
func (h *history) verify(t *rapid.T, s sent) (ledger.Payment, bool) {
	got, err := h.Verify(context.Background(), s.text, nil)
	var want error
	if !h.model.now.Before(s.payment.Expires) {
		want = micropay.ErrRefused
	}
	s.payment.Proof = got.Proof // compared below with the stored one
	h.agree(t, got, err, s.payment, want)
	if err != nil {
		return got, false
	}
	_, _, why := h.model.examine(got)
	live := h.Live(t.Context(), got)
	switch {
	case errors.Is(why, ledger.ErrNoChannel), errors.Is(why, ledger.ErrChannelClosed), errors.Is(why, ledger.ErrChannelExpired):
		h.agree(t, nil, live, nil, why)
	default:
		h.agree(t, nil, live, nil, nil)
	}
	return got, true
}

func (h *history) buyFresh(t *rapid.T) { h.buyWith(t, h.send(t), "") }

func (h *history) refill(t *rapid.T) { h.buyWith(t, h.send(t), h.anySession(t)) }

func (h *history) payRead(t *rapid.T) { h.readWith(t, h.send(t)) }

// sendAgain replays any micropayment, in any order, for any purpose.
func (h *history) sendAgain(t *rapid.T) {
	if len(h.sent) == 0 {
		t.Skip("none was sent")
	}
	s := rapid.SampledFrom(h.sent).Draw(t, "which")
	switch rapid.IntRange(0, 2).Draw(t, "for") {
	case 0:
		h.buyWith(t, s, "")
	case 1:
		h.buyWith(t, s, h.anySession(t))
	case 2:
		h.readWith(t, s)
	}
}

// anySession returns a session's id. The session may not exist.
func (h *history) anySession(t *rapid.T) string {
	var ids []string
	for _, s := range h.model.sessions {
		ids = append(ids, s.ID)
	}
	if len(ids) == 0 || seldom(t, "unknown") {
		return "unknown"
	}
	return rapid.SampledFrom(ids).Draw(t, "session")
}

func (h *history) buyWith(t *rapid.T, s sent, refill string) {
	p, ok := h.verify(t, s)
	if !ok {
		return
	}
	k := &keyed{buy: paychan.BuyOptions{Payment: p, SessionID: refill, UserIdentity: rapid.SampledFrom([]string{"", "me"}).Draw(t, "user")}}
	if rapid.Bool().Draw(t, "with key") {
		k.idem = database.Idempotency{Scope: "buy", Key: h.name()}
		h.keyed = append(h.keyed, k)
	}
	h.purchase(t, k)
}

// purchase makes the purchase of k for the first time.
func (h *history) purchase(t *rapid.T, k *keyed) {
	var idem *database.Idempotency
	if k.idem.Key != "" {
		idem = &k.idem
	}
	got, err := h.Buy(t.Context(), k.buy, idem)
	want, refusal := h.model.buy(k.buy.Payment, k.buy.SessionID, ledger.Session{
		ID: got.ID, UserIdentity: k.buy.UserIdentity, Created: h.model.now, Expires: h.model.now.Add(sessionTTL),
	})
	h.agree(t, got, err, want, refusal)
	if err == nil {
		k.outcome, k.at = &got, h.model.now
	}
}

// repeat repeats a purchase with its key, as after a lost response.
func (h *history) repeat(t *rapid.T) {
	if len(h.keyed) == 0 {
		t.Skip("there is no key")
	}
	k := rapid.SampledFrom(h.keyed).Draw(t, "which")
	if k.outcome == nil || !h.model.now.Before(k.at.Add(database.IdempotencyRetention)) {
		h.purchase(t, k)
		return
	}
	idem := k.idem
	if seldom(t, "another request") {
		idem.Hash[0] = 1
		_, err := h.Buy(t.Context(), k.buy, &idem)
		h.agree(t, nil, err, nil, database.ErrIdempotencyReuse)
		return
	}
	got, err := h.Buy(t.Context(), k.buy, &idem)
	h.agree(t, got, err, *k.outcome, nil)
}

func (h *history) readWith(t *rapid.T, s sent) {
	p, ok := h.verify(t, s)
	if !ok {
		return
	}
	count := rapid.Int64Range(1, 8).Draw(t, "count")
	got, err := h.PayRead(t.Context(), p, count, "")
	want, refusal := h.model.payRead(p, count)
	h.agree(t, got, err, want, refusal)
}

func (h *history) use(t *rapid.T) {
	id, n := h.anySession(t), rapid.Int64Range(1, 6).Draw(t, "n")
	got, err := h.meta.UseSession(t.Context(), id, n, nil)
	want, refusal := h.model.use(id, n)
	h.agree(t, got, err, want, refusal)
	if errors.Is(err, ledger.ErrExhausted) && got != want {
		t.Fatalf("exhausted: %+v, want %+v", got, want)
	}
}

// returnChunksets returns some of a session's chunksets, again or for the first time.
func (h *history) returnChunksets(t *rapid.T) {
	r := h.sometimesAgain(t, func(r returned) bool { return r.session != "" })
	again := r.request != ""
	if !again {
		r = returned{session: h.anySession(t), n: rapid.Int64Range(1, 4).Draw(t, "n"), request: h.name(), at: h.model.now}
	}
	got, err := h.meta.ReturnChunksets(t.Context(), r.session, r.n, r.request)
	s, refusal := h.model.session(r.session)
	if refusal == nil && !again && r.n > s.Used {
		if err == nil {
			t.Fatalf("%d chunksets were returned to %+v", r.n, *s)
		}
		return
	}
	if refusal != nil {
		h.agree(t, got, err, nil, refusal)
		return
	}
	if !again {
		s.Left += r.n
		s.Used -= r.n
		h.returns = append(h.returns, r)
	}
	h.agree(t, got, err, *s, nil)
}

// sometimesAgain returns a return that is still remembered, or a zero one.
func (h *history) sometimesAgain(t *rapid.T, of func(returned) bool) returned {
	list := []returned{{}}
	if rapid.Bool().Draw(t, "first time") {
		return returned{}
	}
	for _, r := range h.returns {
		if of(r) && h.model.now.Before(r.at.Add(database.IdempotencyRetention)) {
			list = append(list, r)
		}
	}
	return rapid.SampledFrom(list).Draw(t, "return")
}

// cutRead returns the chunksets that a cut read has not sent, again or for the first time.
func (h *history) cutRead(t *rapid.T) {
	r := h.sometimesAgain(t, func(r returned) bool { return r.channel != "" })
	again := r.request != ""
	c := h.anyChannel(t, func(c *modelChannel) bool { return again && c.ID == r.channel || !again && c.read > 0 })
	if !again {
		r = returned{channel: c.ID, n: rapid.Int64Range(1, c.read).Draw(t, "n"), request: h.name(), at: h.model.now}
		h.returns = append(h.returns, r)
		c.read -= r.n
		c.sold -= r.n * h.model.price
		c.Credit += r.n * h.model.price
	}
	got, err := h.Return(t.Context(), r.channel, r.n, h.Price(), r.request)
	h.agree(t, got, err, c.Channel, nil)
}

// anyChannel returns a channel for which ok is true.
func (h *history) anyChannel(t *rapid.T, ok func(*modelChannel) bool) *modelChannel {
	var list []int
	for i, c := range h.model.channels {
		if ok(c) {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		t.Skip("no such channel")
	}
	return h.model.channels[rapid.SampledFrom(list).Draw(t, "channel")]
}

func all(*modelChannel) bool { return true }

func (h *history) deposit(t *rapid.T) {
	c := h.anyChannel(t, all)
	amount := rapid.SampledFrom([]int64{1, 10, 100, 1<<63 - 1 - c.Deposit, 1<<63 - 1}).Draw(t, "amount")
	got, err := h.Deposit(t.Context(), c.ID, amount, nil)
	refusal := h.model.deposit(c, amount)
	want := c.Channel
	want.Proof = nil
	h.agree(t, got, err, want, refusal)
}

func (h *history) close(t *rapid.T) {
	if !seldom(t, "really") {
		t.Skip("otherwise most channels are closed")
	}
	c := h.anyChannel(t, all)
	if c.Closed.IsZero() {
		c.Closed = h.model.now
	}
	got, err := h.Close(t.Context(), c.ID)
	h.agree(t, got, err, c.Channel, nil)
}

func (h *history) advance(t *rapid.T) {
	const day = 24 * time.Hour
	d := rapid.SampledFrom([]time.Duration{
		time.Second, 29 * time.Second, 30 * time.Second, time.Minute, time.Microsecond, sessionTTL, time.Hour,
	}).Draw(t, "by")
	if seldom(t, "long") {
		d = rapid.SampledFrom([]time.Duration{day, 31 * day}).Draw(t, "days")
	}
	h.clock.Advance(d)
	h.model.now = h.clock.Now()
}

// settle books everything that is pending.
func (h *history) settle(t *rapid.T) {
	ok(t, h.Settle(t.Context()))
	for _, c := range h.model.channels {
		if c.pending != nil {
			c.settled(*c.pending)
		}
	}
}

// settleLate pays a settlement out at any later time, possibly again.
func (h *history) settleLate(t *rapid.T) {
	c := h.anyChannel(t, func(c *modelChannel) bool { return len(c.accepted) > 0 })
	s := c.accepted[rapid.IntRange(0, len(c.accepted)-1).Draw(t, "payment")]
	ok(t, h.meta.Book(t.Context(), []ledger.Settlement{s}))
	c.settled(s)
}

func (h *history) reopen(*rapid.T) {
	h.stop()
	h.start()
}

// compare compares every state.
func (h *history) compare(t *rapid.T) {
	if err := h.model.broken(); err != nil {
		t.Fatalf("the model contradicts itself: %v", err)
	}
	for _, c := range h.model.channels {
		want := c.Channel
		if c.pending != nil && !h.model.now.Before(c.pending.Expires) {
			want.Expired = c.Accepted - c.Settled
		}
		h.agree(t, h.channel(c.ID), nil, want, nil)
		got, bought := h.sessions(c.ID), h.model.bought(c.ID)
		if !slices.IsSortedFunc(got, func(a, b ledger.Session) int { return b.Created.Compare(a.Created) }) {
			t.Fatalf("not the newest first: %+v", got)
		}
		byID := func(a, b ledger.Session) int { return strings.Compare(a.ID, b.ID) }
		slices.SortFunc(got, byID)
		slices.SortFunc(bought, byID)
		h.agree(t, got, nil, bought, nil)
	}
	for _, s := range h.model.sessions {
		got, err := h.meta.Session(t.Context(), s.ID)
		_, want := h.model.session(s.ID)
		h.agree(t, got, err, *s, want)
	}
	due := h.pending()
	if !slices.IsSortedFunc(due, func(a, b ledger.Settlement) int { return a.Expires.Compare(b.Expires) }) {
		t.Fatalf("not in the order of expiry: %+v", due)
	}
	slices.SortFunc(due, func(a, b ledger.Settlement) int { return strings.Compare(a.Channel, b.Channel) })
	h.agree(t, due, nil, h.model.due(), nil)
}
