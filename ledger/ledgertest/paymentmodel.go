package ledgertest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/ledger"
)

// modelPayments plays random histories of channels, payments and sessions on two handles, compares
// every result with a simple model in memory, and audits the store at the end of each. Each history
// uses a separate receiver and separate ids.
func modelPayments(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	p.Play(func(t *rapid.T, round int) {
		b := &bank{
			T: t, p: p, name: fmt.Sprint("round", round, "-"),
			channels: map[string]ledger.Channel{}, sessions: map[string]ledger.Session{},
			pending: map[string]ledger.Settlement{}, settleable: map[string][]ledger.Settlement{},
			bought: map[string]boughtOnce{}, returned: map[string]time.Time{}, last: map[string]ledger.Offer{},
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			b.store = handles[rapid.IntRange(0, 1).Draw(t, "handle")]
			b.step()
		}
		b.verify()
	})
}

// bank is a model of channels and sessions, and the store that it is compared
// with.
type bank struct {
	*rapid.T
	p     *probe
	store whole.Database
	name  string // prefix of all ids, and the receiver
	made  int

	channels   map[string]ledger.Channel
	sessions   map[string]ledger.Session
	pending    map[string]ledger.Settlement   // by channel
	settleable map[string][]ledger.Settlement // all accepted payments, by channel
	bought     map[string]boughtOnce
	returned   map[string]time.Time    // by kind, id and request
	last       map[string]ledger.Offer // by channel
}

// boughtOnce is a purchase's result with an idempotency key.
type boughtOnce struct {
	session ledger.Session
	at      time.Time
}

func (b *bank) now() time.Time { return b.p.Clock.Now() }

func (b *bank) number(name string, from, to int64) int64 {
	return rapid.Int64Range(from, to).Draw(b.T, name)
}

func (b *bank) oneOf(name string, of ...string) string {
	return rapid.SampledFrom(of).Draw(b.T, name)
}

// fresh returns a new id.
func (b *bank) fresh(kind string) string {
	b.made++
	return fmt.Sprint(b.name, kind, b.made)
}

// pick returns an existing id, or an unknown one.
func pick[V any](b *bank, name string, of map[string]V) string {
	ids := []string{b.name + "unknown"}
	for id := range of {
		ids = append(ids, id, id, id, id)
	}
	slices.Sort(ids)
	return b.oneOf(name, ids...)
}

func (b *bank) step() {
	verb := b.oneOf("verb", "open", "open", "buy", "buy", "buy", "refill", "refill", "refill", "read", "read", "read",
		"replay", "grant", "use", "use", "use", "return", "return", "credit", "deposit", "deposit", "close",
		"settle", "settle", "renew", "renew", "purge", "advance", "advance")
	pay := func() { b.payNew(verb) }
	map[string]func(){
		"open": b.Open, "buy": pay, "refill": pay, "read": pay, "replay": b.replay, "grant": b.grant, "use": b.use,
		"return": b.giveBack, "credit": b.credit, "deposit": b.deposit, "close": b.close, "settle": b.settle,
		"renew": b.renew, "purge": b.purge, "advance": b.advance,
	}[verb]()
}

func (b *bank) purge() { dbtest.Value(b.store.Purge(b.p.Ctx, 10)) }

func (b *bank) advance() {
	b.p.Clock.Advance(rapid.SampledFrom([]time.Duration{
		time.Microsecond, time.Second, time.Second, 20 * time.Second, 20 * time.Second, time.Minute, time.Minute,
		time.Hour, time.Hour, 25 * time.Hour, 31 * 24 * time.Hour,
	}).Draw(b.T, "time"))
}

func (b *bank) Open() {
	c := ledger.Channel{
		ID: b.fresh("channel"), PaymentChannelID: b.number("number", 0, 1), Sender: b.oneOf("sender", "s", "", "t"),
		Receiver: b.name, Asset: "a", Deposit: rapid.SampledFrom([]int64{20, 50, 100, 0, math.MaxInt64}).Draw(b.T, "deposit"),
		Expires: b.now().Add(20 * time.Hour),
	}
	var wantErr error
	for _, o := range b.channels {
		if o.PaymentChannelID == c.PaymentChannelID && (o.Sender == c.Sender || o.Sender == "" || c.Sender == "") {
			wantErr = database.ErrExists
		}
	}
	got, err := b.store.OpenChannel(b.p.Ctx, c, nil)
	c.Created = b.now()
	if wantErr == nil {
		b.channels[c.ID] = c
	}
	b.p.Agree("open", got, c, err, wantErr)
}

// payNew draws a payment near to acceptable ones.
func (b *bank) payNew(verb string) {
	sender, number := b.oneOf("sender", "s", "s", "t"), b.number("number", 0, 1)
	c := b.channels[pick(b, "channel", b.channels)]
	if c.ID != "" { // otherwise most likely the one of no channel
		number = c.PaymentChannelID
		if c.Sender != "" && b.number("stranger", 0, 9) > 0 {
			sender = c.Sender
		}
	}
	sequence := max(0, c.Sequence+rapid.SampledFrom([]int64{1, 1, 1, 1, 2, 0, -1}).Draw(b.T, "sequence"))
	amount := max(0, c.Accepted+rapid.SampledFrom([]int64{5, 1, 2, 3, 7, 20, 5, 3, 0, -1}).Draw(b.T, "amount"))
	if b.number("all", 0, 19) == 19 {
		amount = c.Deposit + b.number("above", 0, 1)
	}
	if amount < 0 { // above the maximum
		amount = math.MaxInt64
	}
	pay := ledger.Offer{Payment: ledger.Payment{
		Sender: sender, Receiver: b.name, Asset: "a", PaymentChannelID: number, Sequence: sequence, Amount: amount,
		Proof: []byte(b.fresh("proof")), Expires: b.now().Add(paymentLife),
	}, Policy: ledger.Policy{UnsettledLimit: rapid.SampledFrom([]int64{math.MaxInt64, 1000, 25}).Draw(b.T, "limit")}}
	b.last[c.ID] = pay
	b.spend(verb, pay)
}

// replay sends the last payment over a channel again, whether it was accepted or not.
func (b *bank) replay() {
	if pay, ok := b.last[pick(b, "channel", b.channels)]; ok {
		b.spend(b.oneOf("for", "buy", "refill", "read"), pay)
	}
}

func (b *bank) find(sender string, number int64) (ledger.Channel, error) {
	for _, c := range b.channels {
		if c.PaymentChannelID == number && (c.Sender == sender || c.Sender == "") {
			return c, nil
		}
	}
	return ledger.Channel{}, ledger.ErrNoChannel
}

func (b *bank) live(c ledger.Channel) error {
	switch {
	case !c.Closed.IsZero():
		return ledger.ErrChannelClosed
	case !b.now().Before(c.Expires):
		return ledger.ErrChannelExpired
	}
	return nil
}

// examine returns the amount that a payment leaves to be spent.
func (b *bank) examine(pay ledger.Offer) (ledger.Channel, int64, error) {
	c, err := b.find(pay.Sender, pay.PaymentChannelID)
	if err != nil {
		return c, 0, err
	}
	if err := b.live(c); err != nil {
		return c, 0, err
	}
	first := len(c.Proof) == 0
	switch {
	case (!first && pay.Sequence <= c.Sequence) || pay.Amount <= c.Accepted:
		return c, 0, &ledger.StaleError{Stored: c.Proof}
	case pay.Amount > c.Deposit:
		return c, 0, &ledger.InsufficientFundsError{Required: pay.Amount, Available: c.Deposit}
	case pay.Amount-c.Settled > pay.UnsettledLimit:
		return c, 0, &ledger.UnsettledLimitError{Limit: pay.UnsettledLimit, Unsettled: c.Accepted - c.Settled, Expired: b.expired(c)}
	}
	return c, pay.Amount - (c.Accepted - c.Credit), nil
}

func (b *bank) accept(c ledger.Channel, pay ledger.Offer, credit int64) ledger.Channel {
	c.Sender, c.Sequence, c.Accepted, c.Proof, c.Credit = pay.Sender, pay.Sequence, pay.Amount, pay.Proof, credit
	b.channels[c.ID] = c
	b.pending[c.ID] = settlement(pay, c.ID)
	b.settleable[c.ID] = append(b.settleable[c.ID], b.pending[c.ID])
	return c
}

func (b *bank) spend(verb string, pay ledger.Offer) {
	price := b.number("price", 1, 4)
	switch verb {
	case "read":
		b.read(ledger.ReadPurchase{Offer: pay, Price: price, Count: b.number("count", 1, 5)})
	case "refill":
		buy := ledger.Purchase{Offer: pay, Price: price, Refill: true}
		buy.Session.ID = pick(b, "session", b.sessions)
		b.buy(buy, "")
	default:
		buy := ledger.Purchase{Offer: pay, Price: price}
		buy.Session = ledger.Session{ID: b.fresh("session"), UserIdentity: "u", Expires: b.now().Add(2 * time.Hour)}
		b.buy(buy, b.oneOf("key", "", "", "k", "l"))
	}
}

func (b *bank) read(r ledger.ReadPurchase) {
	c, spendable, wantErr := b.examine(r.Offer)
	if wantErr == nil && spendable < r.Count*r.Price {
		wantErr = &ledger.InsufficientFundsError{Required: r.Count * r.Price, Available: spendable}
	}
	if wantErr == nil {
		c = b.accept(c, r.Offer, spendable-r.Count*r.Price)
	}
	got, err := b.store.PayRead(b.p.Ctx, r)
	b.p.Agree("read", got, c, err, wantErr)
}

func (b *bank) buy(buy ledger.Purchase, key string) {
	var once *database.Idempotency
	if key != "" {
		once = dbtest.Idem(b.name, key)
	}
	got, err := b.store.Buy(b.p.Ctx, buy, once)
	if o, ok := b.bought[key]; ok && key != "" && b.now().Before(o.at.Add(database.IdempotencyRetention)) {
		b.p.Agree("buy replayed", got, o.session, err, nil)
		return
	}
	want, wantErr := b.sell(buy)
	if wantErr == nil && key != "" {
		b.bought[key] = boughtOnce{want, b.now()}
	}
	b.p.Agree("buy", got, want, err, wantErr)
}

func (b *bank) sell(buy ledger.Purchase) (ledger.Session, error) {
	c, spendable, err := b.examine(buy.Offer)
	if err != nil {
		return ledger.Session{}, err
	}
	count := spendable / buy.Price
	if count == 0 {
		return ledger.Session{}, &ledger.InsufficientFundsError{Required: buy.Price, Available: spendable}
	}
	s := buy.Session
	if buy.Refill {
		if s, err = b.Session(s.ID); err != nil {
			return s, err
		}
		if !b.now().Before(s.Expires) {
			return s, database.ErrExpired
		}
		if s.Total+count < 0 {
			return s, ledger.ErrAmountOverflow
		}
	} else {
		s.Channel, s.Created = c.ID, b.now()
	}
	s.Total += count
	s.Left += count
	b.sessions[s.ID] = s
	b.accept(c, buy.Offer, spendable%buy.Price)
	return s, nil
}

func (b *bank) Session(id string) (ledger.Session, error) {
	s, ok := b.sessions[id]
	if !ok || !b.now().Before(s.Expires.Add(ledger.SessionRetention)) {
		return ledger.Session{}, database.ErrNotFound
	}
	return s, nil
}

func (b *bank) grant() {
	s := ledger.Session{ID: b.fresh("session"), Total: b.number("grant", 0, 9), Expires: b.now().Add(time.Hour)}
	s.Left = s.Total
	got, err := b.store.CreateSession(b.p.Ctx, s, nil)
	s.Created = b.now()
	b.sessions[s.ID] = s
	b.p.Agree("grant", got, s, err, nil)
}

func (b *bank) use() {
	id, n := pick(b, "session", b.sessions), b.number("n", 1, 6)
	s, wantErr := b.Session(id)
	switch {
	case wantErr != nil:
	case !b.now().Before(s.Expires):
		wantErr = database.ErrExpired
	case n > s.Left:
		wantErr = ledger.ErrExhausted
	default:
		s.Left, s.Used = s.Left-n, s.Used+n
		b.sessions[id] = s
	}
	got, err := b.store.UseSession(b.p.Ctx, id, n, nil)
	if wantErr == ledger.ErrExhausted { //nolint:errorlint // as it was set above
		b.p.Agree("session returned with the error", got, s, nil, nil)
	}
	b.p.Agree("use", got, s, err, wantErr)
}

// again reports whether this return was made before, and within the retention.
func (b *bank) again(kind, id, request string) bool {
	at, ok := b.returned[kind+id+request]
	return ok && b.now().Before(at.Add(database.IdempotencyRetention))
}

func (b *bank) giveBack() {
	id, n, request := pick(b, "session", b.sessions), b.number("n", 1, 6), b.oneOf("request", "r", "q")
	s, wantErr := b.Session(id)
	switch {
	case wantErr != nil, b.again("session", id, request):
	case n > s.Used:
		wantErr = dbtest.ErrAny
	default:
		s.Left, s.Used = s.Left+n, s.Used-n
		b.sessions[id] = s
		b.returned["session"+id+request] = b.now()
	}
	got, err := b.store.ReturnChunksets(b.p.Ctx, id, n, request)
	b.p.Agree("return", got, s, err, wantErr)
}

func (b *bank) credit() {
	id, n, price, request := pick(b, "channel", b.channels), b.number("n", 1, 3), b.number("price", 1, 4), b.oneOf("request", "r", "q")
	c, ok := b.channels[id]
	var wantErr error
	switch {
	case !ok:
		wantErr = database.ErrNotFound
	case b.again("channel", id, request):
	case c.Credit+n*price < 0 || c.Credit+n*price > c.Accepted:
		wantErr = dbtest.ErrAny
	default:
		c.Credit += n * price
		b.channels[id] = c
		b.returned["channel"+id+request] = b.now()
	}
	got, err := b.store.ReturnCredit(b.p.Ctx, id, n, price, request)
	b.p.Agree("return of credit", got, c, err, wantErr)
}

func (b *bank) deposit() {
	id, amount := pick(b, "channel", b.channels), b.number("amount", 0, 30)
	c, ok := b.channels[id]
	wantErr := b.live(c)
	switch {
	case !ok:
		wantErr = database.ErrNotFound
	case wantErr != nil:
	case c.Deposit+amount < 0:
		wantErr = ledger.ErrAmountOverflow
	default:
		c.Deposit += amount
		b.channels[id] = c
	}
	got, err := b.store.AddDeposit(b.p.Ctx, id, amount, nil)
	c.Proof = nil
	b.p.Agree("deposit", got, c, err, wantErr)
}

func (b *bank) close() {
	id := pick(b, "channel", b.channels)
	c, ok := b.channels[id]
	var wantErr error
	if !ok {
		wantErr = database.ErrNotFound
	} else if c.Closed.IsZero() {
		c.Closed = b.now()
		b.channels[id] = c
	}
	got, err := b.store.CloseChannel(b.p.Ctx, id)
	b.p.Agree("close", got, c, err, wantErr)
}

// settle books an accepted payment, the newest or not.
func (b *bank) settle() {
	id := pick(b, "channel", b.channels)
	list := b.settleable[id]
	if len(list) == 0 {
		return
	}
	s := list[b.number("which", 0, int64(len(list)-1))]
	c := b.channels[id]
	c.Settled = max(c.Settled, s.Amount)
	b.channels[id] = c
	if b.pending[id].Amount <= s.Amount {
		delete(b.pending, id)
	}
	b.p.OK(b.store.Book(b.p.Ctx, []ledger.Settlement{s}), "settle")
}

// expired returns the amount that can be booked only after a renewal, or by a service that books
// expired settlements.
func (b *bank) expired(c ledger.Channel) int64 {
	if s, ok := b.pending[c.ID]; ok && b.now().Before(s.Expires) {
		return 0
	}
	return c.Accepted - c.Settled
}

func (b *bank) renew() {
	c := b.channels[pick(b, "channel", b.channels)]
	if c.ID == "" {
		return
	}
	pay := ledger.Offer{Payment: ledger.Payment{
		Sender: c.Sender, Receiver: b.name, Asset: "a", PaymentChannelID: c.PaymentChannelID, Sequence: c.Sequence + b.number("sequence", 0, 2),
		Amount: c.Accepted + max(0, b.number("amount", -3, 1)), Proof: []byte(b.fresh("proof")), Expires: b.now().Add(paymentLife),
	}}
	if pay.Sender == "" {
		pay.Sender = "s"
	}
	var wantErr error
	switch {
	case !b.now().Before(c.Expires):
		wantErr = ledger.ErrChannelExpired
	case pay.Amount != c.Accepted || pay.Sequence <= c.Sequence:
		wantErr = &ledger.StaleError{Stored: c.Proof}
	case b.expired(c) == 0:
		wantErr = ledger.ErrNothingExpired
	default:
		c.Sequence, c.Proof = pay.Sequence, pay.Proof
		b.channels[c.ID] = c
		b.pending[c.ID] = settlement(pay, c.ID)
		b.settleable[c.ID] = append(b.settleable[c.ID], b.pending[c.ID])
	}
	got, err := b.store.Renew(b.p.Ctx, pay)
	b.p.Agree("renew", got, c, err, wantErr)
}

// verify compares everything with the model, and audits the store.
func (b *bank) verify() {
	ctx := b.p.Ctx
	for id, c := range b.channels {
		c.Expired = b.expired(c)
		got, err := b.store.Channel(ctx, id)
		b.p.Agree("channel", got, c, err, nil)
		var want []string
		for sid, s := range b.sessions {
			if _, err := b.Session(sid); err == nil && s.Channel == id {
				want = append(want, sid)
			}
		}
		list, err := b.store.ChannelSessions(ctx, id, 1000)
		var ids []string
		for _, s := range list {
			ids = append(ids, s.ID)
		}
		slices.Sort(ids)
		slices.Sort(want)
		b.p.Agree("sessions of a channel", ids, want, err, nil)
	}
	for id := range b.sessions {
		want, wantErr := b.Session(id)
		got, err := b.store.Session(ctx, id)
		b.p.Agree("session", got, want, err, wantErr)
	}
	all, err := b.store.Settlements(ctx, ledger.Settlement{}, 10_000)
	got := map[string]ledger.Settlement{}
	for _, s := range all {
		if strings.HasPrefix(s.Channel, b.name) {
			got[s.Channel] = s
		}
	}
	b.p.Agree("settlements", got, b.pending, err, nil)
	b.p.Audited()
}
