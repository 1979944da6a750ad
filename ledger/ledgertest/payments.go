package ledgertest

import (
	"fmt"
	"math"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/ledger"
)

var paymentChecks = []dbtest.Check{
	check("payments/buy", paymentBuy),
	check("payments/read", paymentRead),
	check("payments/order", paymentOrder),
	check("payments/replay", paymentReplay),
	check("payments/stale", paymentStale),
	check("payments/first", paymentFirst),
	check("payments/bind", paymentBind),
	check("payments/credit", paymentCredit),
	check("payments/refill", paymentRefill),
	check("payments/deposit", paymentDeposit),
	check("payments/unsettled", paymentUnsettled),
	check("payments/largest", paymentLargest),
	check("payments/invalid", paymentInvalid),
	check("payments/return", paymentReturn),
	check("payments/idempotent", paymentIdempotent),
}

func paymentBuy(p *probe) {
	c := p.Channel("channel", "s", 100)
	p.Clock.Advance(time.Second)
	pay := p.pay(c, 7, 23)
	buy := p.purchase(pay, 5, "session")
	buy.Session.Total, buy.Session.Left, buy.Session.Used, buy.Session.Channel = 99, 98, 97, "other" // ignored
	buy.Session.Expires = buy.Session.Expires.Add(time.Nanosecond)
	got := dbtest.Value(p.Store.Buy(p.Ctx, buy, nil))
	want := ledger.Session{
		ID: "session", UserIdentity: "user", Channel: "channel", Total: 4, Left: 4,
		Created: p.Clock.Now(), Expires: p.Clock.Now().Add(sessionLife),
	}
	p.Equal(got, want, "bought session")
	c.Accepted, c.Sequence, c.Proof, c.Credit = 23, 7, pay.Proof, 3
	settlement := ledger.Settlement{Channel: "channel", Sequence: 7, Amount: 23, Proof: pay.Proof, Expires: pay.Expires}
	p.Reopen()
	p.Equal(p.books("channel"), books{c, []ledger.Session{want}, []ledger.Settlement{settlement}}, "books")
	got = dbtest.Value(p.Store.Session(p.Ctx, "session"))
	p.Equal(got, want, "session")
	p.refusedPurchase("channel", database.ErrExists, "a session of that id", p.purchase(p.pay(c, 8, 50), 1, "session"))
}

func paymentRead(p *probe) {
	c := p.Channel("channel", "s", 100)
	pay := p.pay(c, 7, 23)
	got := dbtest.Value(p.Store.PayRead(p.Ctx, ledger.ReadPurchase{Offer: pay, Price: 5, Count: 3}))
	c.Accepted, c.Sequence, c.Proof, c.Credit = 23, 7, pay.Proof, 8
	p.Equal(got, c, "channel after a read")
	settlement := ledger.Settlement{Channel: "channel", Sequence: 7, Amount: 23, Proof: pay.Proof, Expires: pay.Expires}
	p.Reopen()
	p.Equal(p.books("channel"), books{c, nil, []ledger.Settlement{settlement}}, "books")
	for _, r := range []struct{ amount, price, count, required, available int64 }{
		{24, 10, 1, 10, 9},
		{25, 5, 3, 15, 10},
		{25, 11, 1, 11, 10},
		{100, 1, math.MaxInt64, math.MaxInt64, 85},
		{100, math.MaxInt64, 1, math.MaxInt64, 85},
		{100, math.MaxInt64, math.MaxInt64, math.MaxInt64, 85},
		{100, 1 << 32, 1 << 32, math.MaxInt64, 85}, // their product is 2^64, which may wrap to 0
		{100, 1<<32 + 1, 1 << 32, math.MaxInt64, 85},
	} {
		want := &ledger.InsufficientFundsError{Required: r.required, Available: r.available}
		p.refusedRead("channel", want, fmt.Sprintf("%+v", r), p.pay(c, 8, r.amount), r.price, r.count)
	}
	p.Must(p.reads(c, 8, 25, 5, 2).Credit == 0, "a read that costs exactly the payment left a credit")
	p.Audited()
}

// paymentOrder makes payments with more than one error. The contract orders them: the first one
// must be returned.
func paymentOrder(p *probe) {
	c := p.Channel("channel", "s", 100)
	p.buys(c, 5, 50, 1, "session")
	stored := &ledger.StaleError{Stored: p.pay(c, 5, 50).Proof}
	wrong := func(sequence, amount, limit int64) ledger.Offer {
		pay := p.pay(c, sequence, amount)
		pay.UnsettledLimit = limit
		return pay
	}
	other := wrong(5, 1000, 0)
	other.Sender = "t"
	p.refusedPayment("channel", other, ledger.ErrNoChannel, "of an unknown sender")
	p.refusedPayment("channel", wrong(5, 1000, 0), stored, "stale, above the deposit, above the limit")
	dear := wrong(6, 1000, 0)
	dear.MaxPrice = 1
	p.refusedPurchase("channel", &ledger.PriceChangedError{Price: 2, Max: 1}, "at a higher price, above the deposit", p.purchase(dear, 2, "dear"))
	p.refusedRead("channel", &ledger.PriceChangedError{Price: 2, Max: 1}, "at a higher price, above the deposit", dear, 2, 1)
	dear.Sequence = 5
	p.refusedPurchase("channel", stored, "stale, at a higher price", p.purchase(dear, 2, "dear"))
	p.refusedRead("channel", &ledger.InsufficientFundsError{Required: 1000, Available: 100}, "at the greatest price, above the deposit", wrong(6, 1000, 0), 1, 1)
	p.refusedPayment("channel", wrong(6, 101, 0), &ledger.InsufficientFundsError{Required: 101, Available: 100}, "above the deposit, above the limit")
	p.refusedPayment("channel", wrong(6, 100, 99), ledger.ErrUnsettledLimit, "above the limit")
	p.refusedRead("channel", ledger.ErrUnsettledLimit, "above the limit, and not covered", wrong(6, 100, 99), 1, 1000)
	refill := p.purchase(wrong(6, 52, 1000), 10, "unknown")
	refill.Refill = true
	p.refusedPurchase("channel", &ledger.InsufficientFundsError{Required: 10, Available: 2}, "not covered, for an unknown session", refill)
	p.Clock.Advance(dbtest.ChannelLife)
	p.refusedPayment("channel", wrong(5, 1000, 0), ledger.ErrChannelExpired, "expired and stale")
	dbtest.Value(p.Store.CloseChannel(p.Ctx, "channel"))
	p.refusedPayment("channel", wrong(5, 1000, 0), ledger.ErrChannelClosed, "closed, expired and stale")
	p.refusedPayment("channel", wrong(6, 60, 1000), ledger.ErrChannelClosed, "closed")
}

func paymentReplay(p *probe) {
	c := p.Channel("channel", "s", 100)
	p.buys(c, 1, 10, 1, "session")
	for range 3 {
		p.refusedPayment("channel", p.pay(c, 1, 10), &ledger.StaleError{Stored: p.pay(c, 1, 10).Proof}, "replay of a purchase")
		p.Reopen()
	}
	p.reads(c, 2, 20, 1, 4)
	for range 3 {
		p.refusedPayment("channel", p.pay(c, 2, 20), &ledger.StaleError{Stored: p.pay(c, 2, 20).Proof}, "replay of a read")
		p.refusedPayment("channel", p.pay(c, 1, 10), &ledger.StaleError{Stored: p.pay(c, 2, 20).Proof}, "replay of an older one")
	}
	p.Must(p.left("session") == 10 && p.getChannel("channel").Credit == 6, "a replay had an effect")
}

// paymentStale tries every combination of a lower, equal and higher sequence
// and amount.
func paymentStale(p *probe) {
	c := p.Channel("channel", "s", 1<<62)
	sequence, amount := int64(5), int64(50)
	p.reads(c, sequence, amount, 1, 1)
	stored := p.pay(c, sequence, amount).Proof
	for _, s := range []int64{0, sequence - 1, sequence, sequence + 1, math.MaxInt64} {
		for _, a := range []int64{0, 1, amount - 1, amount, amount + 1, 1 << 61} {
			if s > sequence && a > amount {
				continue
			}
			p.refusedPayment("channel", p.pay(c, s, a), &ledger.StaleError{Stored: stored}, fmt.Sprintf("sequence %d, amount %d", s, a))
		}
	}
	p.reads(c, sequence+1, amount+1, 1, 1)
	p.reads(c, math.MaxInt64, amount+2, 1, 1)
	p.refusedPayment("channel", p.pay(c, math.MaxInt64, amount+3), &ledger.StaleError{Stored: p.pay(c, math.MaxInt64, amount+2).Proof}, "no sequence is above the accepted one")
}

// paymentFirst checks that every sequence and every amount except 0 is accepted as the first.
func paymentFirst(p *probe) {
	for i, sequence := range []int64{0, 1, math.MaxInt64} {
		id := fmt.Sprint("channel", i)
		c := p.Channel(id, "s", 100)
		p.refusedPayment(id, p.pay(c, sequence, 0), &ledger.StaleError{}, fmt.Sprint("zero at sequence ", sequence))
		p.buys(c, sequence, 1, 1, fmt.Sprint("session", i))
		p.refusedPayment(id, p.pay(c, sequence, 2), &ledger.StaleError{Stored: p.pay(c, sequence, 1).Proof}, fmt.Sprint("again at sequence ", sequence))
	}
	p.Audited()
}

// paymentBind checks that a channel is bound by the first accepted payment, and not by refused
// ones.
func paymentBind(p *probe) {
	c := p.Channel("channel", "", 100)
	p.Session("taken", 1)
	p.refusedPayment("channel", p.pay(c, 1, 0), &ledger.StaleError{}, "nothing")
	p.refusedPayment("channel", p.pay(c, 1, 101), &ledger.InsufficientFundsError{Required: 101, Available: 100}, "above the deposit")
	limited := p.pay(c, 1, 11)
	limited.UnsettledLimit = 10
	p.refusedPayment("channel", limited, ledger.ErrUnsettledLimit, "above the limit")
	p.refusedPurchase("channel", &ledger.InsufficientFundsError{Required: 11, Available: 10}, "not one chunkset", p.purchase(p.pay(c, 1, 10), 11, "session"))
	p.refusedRead("channel", &ledger.InsufficientFundsError{Required: 11, Available: 10}, "not the read", p.pay(c, 1, 10), 1, 11)
	p.refusedPurchase("channel", database.ErrExists, "an existing session", p.purchase(p.pay(c, 1, 10), 1, "taken"))
	p.refused("channel", database.ErrNotFound, "a refill of an unknown session", func() error {
		buy := p.purchase(p.pay(c, 1, 10), 1, "unknown")
		buy.Refill = true
		_, err := p.Store.Buy(p.Ctx, buy, nil)
		return err
	})
	other := p.pay(c, 1, 10)
	other.Asset = "other"
	p.refusedPayment("channel", other, ledger.ErrNoChannel, "in another asset")

	p.Must(p.getChannel("channel").Sender == "", "a refusal bound the channel")
	p.buys(c, 1, 10, 1, "session")
	p.Must(p.getChannel("channel").Sender == "s", "the channel is bound to %q", p.getChannel("channel").Sender)
	other = p.pay(c, 2, 20)
	other.Sender = "t"
	p.refusedPayment("channel", other, ledger.ErrNoChannel, "of another sender")
	err := func() error {
		_, err := p.Store.OpenChannel(p.Ctx, ledger.Channel{
			ID: "second", PaymentChannelID: c.PaymentChannelID, Sender: "s", Receiver: c.Receiver, Asset: c.Asset,
		}, nil)
		return err
	}()
	p.Is(err, database.ErrExists, "a second channel of the bound sender")
	dbtest.Value(p.Store.OpenChannel(p.Ctx, ledger.Channel{
		ID: "third", PaymentChannelID: c.PaymentChannelID, Sender: "t", Receiver: c.Receiver, Asset: c.Asset,
		Deposit: 100, Expires: p.Clock.Now().Add(dbtest.ChannelLife),
	}, nil))
	dbtest.Value(p.Store.Buy(p.Ctx, p.purchase(other, 1, "other"), nil))
	p.Audited()
}

// paymentCredit follows the credit through sales at many prices.
func paymentCredit(p *probe) {
	c := p.Channel("channel", "s", 1000)
	for i, step := range []struct{ amount, price, read, sold, credit int64 }{
		{10, 3, 0, 3, 1},     // 10 to spend
		{12, 3, 0, 1, 0},     // 2 and 1 of credit
		{20, 1, 3, 3, 5},     // 8
		{21, 2, 0, 3, 0},     // 1 and 5
		{22, 1, 1, 1, 0},     // 1
		{30, 7, 1, 1, 1},     // 8
		{99, 10, 2, 2, 50},   // 69 and 1
		{100, 50, 0, 1, 1},   // 1 and 50
		{1000, 1, 1, 1, 900}, // 900 and 1
	} {
		sequence := int64(i)
		if step.read > 0 {
			p.reads(c, sequence, step.amount, step.price, step.read)
		} else {
			s := p.buys(c, sequence, step.amount, step.price, fmt.Sprint("session", i))
			p.Must(s.Total == step.sold && s.Left == step.sold, "step %d sold %d chunksets, want %d", i, s.Total, step.sold)
		}
		got := p.getChannel("channel")
		p.Must(got.Accepted == step.amount && got.Credit == step.credit, "after step %d, %d is accepted with a credit of %d, want %d and %d",
			i, got.Accepted, got.Credit, step.amount, step.credit)
		p.Audited()
	}
}

func paymentRefill(p *probe) {
	c, other := p.Channel("channel", "s", math.MaxInt64), p.Channel("other", "s", 100)
	want := p.buys(c, 1, 10, 2, "session")
	dbtest.Value(p.Store.UseSession(p.Ctx, "session", 4, nil))
	want.Total, want.Left, want.Used = 7, 3, 4
	p.Clock.Advance(time.Minute)
	p.Equal(p.buysMore(c, 2, 15, 2, "session"), want, "refilled session")
	want.Total, want.Left = 17, 13
	p.Equal(p.buysMore(other, 1, 10, 1, "session"), want, "session refilled over another channel")
	p.Must(p.getChannel("channel").Credit == 1, "the credit is %d", p.getChannel("channel").Credit)
	granted := p.Session("granted", math.MaxInt64-5)
	granted.Total, granted.Left = math.MaxInt64, math.MaxInt64
	refill := func(pay ledger.Offer, session string) func() error {
		return func() error {
			buy := p.purchase(pay, 1, session)
			buy.Refill = true
			_, err := p.Store.Buy(p.Ctx, buy, nil)
			return err
		}
	}
	p.refused("channel", ledger.ErrAmountOverflow, "a session that becomes too large", refill(p.pay(c, 3, 20), "granted"))
	p.Equal(p.buysMore(c, 3, 19, 1, "granted"), granted, "granted session refilled to the maximum")
	p.refused("channel", ledger.ErrAmountOverflow, "one more chunkset", refill(p.pay(c, 4, 20), "granted"))
	p.refused("channel", database.ErrNotFound, "an unknown session", refill(p.pay(c, 4, 20), "unknown"))
	p.Clock.Advance(time.Hour)
	p.refused("channel", database.ErrExpired, "an expired session", refill(p.pay(c, 4, 20), "granted"))
	p.Equal(p.left("granted"), int64(math.MaxInt64), "chunksets left of the expired session")
	p.Clock.Advance(ledger.SessionRetention)
	p.refused("channel", database.ErrNotFound, "a forgotten session", refill(p.pay(c, 4, 20), "granted"))
}

func paymentDeposit(p *probe) {
	c := p.Channel("channel", "s", 10)
	p.refusedPayment("channel", p.pay(c, 1, 11), &ledger.InsufficientFundsError{Required: 11, Available: 10}, "one above the deposit")
	p.refusedPayment("channel", p.pay(c, 1, math.MaxInt64), &ledger.InsufficientFundsError{Required: math.MaxInt64, Available: 10}, "far above the deposit")
	p.buys(c, 1, 10, 1, "session")
	p.refusedPayment("channel", p.pay(c, 2, 11), &ledger.InsufficientFundsError{Required: 11, Available: 10}, "one above the deposit")
	dbtest.Value(p.Store.AddDeposit(p.Ctx, "channel", 1, nil))
	p.reads(c, 2, 11, 1, 1)
	none := p.Channel("none", "s", 0)
	p.refusedPayment("none", p.pay(none, 1, 1), &ledger.InsufficientFundsError{Required: 1, Available: 0}, "without a deposit")
	p.Audited()
}

func paymentUnsettled(p *probe) {
	c := p.Channel("channel", "s", 1000)
	limited := func(sequence, amount int64) ledger.Offer {
		pay := p.pay(c, sequence, amount)
		pay.UnsettledLimit = 10
		return pay
	}
	read := func(sequence, amount int64) {
		_, err := p.Store.PayRead(p.Ctx, ledger.ReadPurchase{Offer: limited(sequence, amount), Price: 1, Count: 1})
		p.OK(err, "payment of %d within the limit", amount)
	}
	p.refusedPayment("channel", limited(1, 11), ledger.ErrUnsettledLimit, "above the limit with one payment")
	read(1, 4)
	read(2, 10)
	p.refusedPayment("channel", limited(3, 11), ledger.ErrUnsettledLimit, "above the limit by one")
	p.OK(p.book("channel", 1, 4), "book")
	p.refusedPayment("channel", limited(3, 15), ledger.ErrUnsettledLimit, "above the settled amount by one too many")
	read(3, 14)
	p.OK(p.book("channel", 3, 14), "book")
	p.refusedPayment("channel", limited(4, 25), ledger.ErrUnsettledLimit, "above the settled amount by one too many")
	read(4, 24)
	p.Audited()
}

// paymentLargest spends 2^63-1 units.
func paymentLargest(p *probe) {
	c := p.Channel("channel", "s", math.MaxInt64)
	pay := p.pay(c, math.MaxInt64, math.MaxInt64)
	s := dbtest.Value(p.Store.Buy(p.Ctx, p.purchase(pay, 1, "session"), nil))
	p.Must(s.Total == math.MaxInt64 && s.Left == math.MaxInt64, "session %+v", s)
	s = dbtest.Value(p.Store.UseSession(p.Ctx, "session", math.MaxInt64, nil))
	p.Must(s.Left == 0 && s.Used == math.MaxInt64, "session %+v", s)
	s = dbtest.Value(p.Store.ReturnChunksets(p.Ctx, "session", math.MaxInt64, "r"))
	p.Must(s.Left == math.MaxInt64 && s.Used == 0, "session %+v", s)
	p.OK(p.book("channel", math.MaxInt64, math.MaxInt64), "book")
	p.Audited()

	c = p.Channel("credit", "s", math.MaxInt64)
	p.reads(c, 1, math.MaxInt64-1, math.MaxInt64-1, 1)
	p.Must(p.reads(c, 2, math.MaxInt64, 1, 1).Credit == 0, "a credit is left")
	got := dbtest.Value(p.Store.ReturnCredit(p.Ctx, "credit", 1, math.MaxInt64-1, "r"))
	p.Must(got.Credit == math.MaxInt64-1, "the credit is %d", got.Credit)
	p.refused("credit", dbtest.ErrAny, "a return of more than was sold", func() error {
		return dbtest.Error(p.Store.ReturnCredit(p.Ctx, "credit", 1<<32, 1<<32, "s"))
	})
	p.Audited()
}

// paymentInvalid passes invalid arguments.
func paymentInvalid(p *probe) {
	c := p.Channel("channel", "s", 100)
	p.buys(c, 1, 10, 1, "session")
	dbtest.Value(p.Store.UseSession(p.Ctx, "session", 5, nil))
	for label, fn := range map[string]func() error{
		"price 0": func() error { return dbtest.Error(p.Store.Buy(p.Ctx, p.purchase(p.pay(c, 2, 20), 0, "s"), nil)) },
		"read at price 0": func() error {
			return dbtest.Error(p.Store.PayRead(p.Ctx, ledger.ReadPurchase{Offer: p.pay(c, 2, 20), Price: 0, Count: 1}))
		},
		"read of 0": func() error {
			return dbtest.Error(p.Store.PayRead(p.Ctx, ledger.ReadPurchase{Offer: p.pay(c, 2, 20), Price: 1, Count: 0}))
		},
		"read of -1": func() error {
			return dbtest.Error(p.Store.PayRead(p.Ctx, ledger.ReadPurchase{Offer: p.pay(c, 2, 20), Price: 1, Count: -1}))
		},
		"no proof": func() error {
			pay := p.pay(c, 2, 20)
			pay.Proof = []byte{}
			_, err := p.Store.Buy(p.Ctx, p.purchase(pay, 1, "s"), nil)
			return err
		},
		"no sender": func() error {
			pay := p.pay(c, 2, 20)
			pay.Sender = ""
			_, err := p.Store.PayRead(p.Ctx, ledger.ReadPurchase{Offer: pay, Price: 1, Count: 1})
			return err
		},
		"session of which some was used before": func() error {
			return dbtest.Error(p.Store.CreateSession(p.Ctx, ledger.Session{ID: "s", Total: 5, Left: 4, Expires: p.Clock.Now().Add(time.Hour)}, nil))
		},
		"session of -1": func() error {
			return dbtest.Error(p.Store.CreateSession(p.Ctx, ledger.Session{ID: "s", Total: -1, Left: -1, Expires: p.Clock.Now().Add(time.Hour)}, nil))
		},
		"use of 0":              func() error { _, err := p.Store.UseSession(p.Ctx, "session", 0, nil); return err },
		"use of -1":             func() error { _, err := p.Store.UseSession(p.Ctx, "session", -1, nil); return err },
		"use of -1, with a key": func() error { return dbtest.Error(p.Store.UseSession(p.Ctx, "session", -1, dbtest.Idem("s", "k"))) },
		"return of 0":           func() error { _, err := p.Store.ReturnChunksets(p.Ctx, "session", 0, "r"); return err },
		"return of -1":          func() error { _, err := p.Store.ReturnChunksets(p.Ctx, "session", -1, "r"); return err },
		"credit of 0":           func() error { _, err := p.Store.ReturnCredit(p.Ctx, "channel", 0, 1, "r"); return err },
		"credit of -1":          func() error { _, err := p.Store.ReturnCredit(p.Ctx, "channel", -1, 1, "r"); return err },
		"credit at price -1":    func() error { _, err := p.Store.ReturnCredit(p.Ctx, "channel", 1, -1, "r"); return err },
	} {
		p.refused("channel", dbtest.ErrAny, label, fn)
	}
}

func paymentReturn(p *probe) {
	c := p.Channel("channel", "s", 100)
	p.reads(c, 1, 50, 10, 4)
	back := func(count, price int64, request string, credit int64) {
		got, err := p.Store.ReturnCredit(p.Ctx, "channel", count, price, request)
		p.OK(err, "return %s", request)
		p.Must(got.Credit == credit, "return %s of %d at %d: the credit is %d, want %d", request, count, price, got.Credit, credit)
		p.Equal(p.recorded("channel"), got, "channel after return %s", request)
		p.Audited()
	}
	back(2, 10, "r", 30)
	back(2, 10, "r", 30)
	p.Reopen()
	back(2, 10, "r", 30)
	back(1, 10, "q", 40)
	p.Must(p.getChannel("channel").Accepted == 50, "a return changed the accepted amount")
	p.refused("channel", dbtest.ErrAny, "more than was sold", func() error {
		return dbtest.Error(p.Store.ReturnCredit(p.Ctx, "channel", 2, 10, "s"))
	})
	p.Is(dbtest.Error(p.Store.ReturnCredit(p.Ctx, "channe", 1, 1, "r")), database.ErrNotFound, "return to an unknown channel")

	s := p.buys(c, 2, 51, 41, "session") // the credit is good for a session
	p.Must(s.Total == 1, "the credit bought %d chunksets", s.Total)
	dbtest.Value(p.Store.CloseChannel(p.Ctx, "channel"))
	back(1, 10, "closed", 10)
	p.Clock.Advance(database.IdempotencyRetention - time.Microsecond)
	p.Purge()
	back(1, 10, "closed", 10)
	p.Clock.Advance(dbtest.ChannelLife)
	back(1, 5, "expired", 15)
	p.Channel("other", "s", 10)
	_, err := p.Store.ReturnCredit(p.Ctx, "other", 1, 1, "r")
	p.Must(err != nil, "a channel without sales accepted a return")
}

func paymentIdempotent(p *probe) {
	c := p.Channel("channel", "s", 100)
	first := dbtest.Value(p.Store.Buy(p.Ctx, p.purchase(p.pay(c, 1, 10), 3, "one"), dbtest.Idem("buy", "k")))
	p.Clock.Advance(time.Minute)
	dbtest.Value(p.Store.UseSession(p.Ctx, "one", 2, nil))
	for range 2 {
		before := p.books("channel")
		p.Equal(dbtest.Value(p.Store.Buy(p.Ctx, p.purchase(p.pay(c, 1, 10), 3, "two"), dbtest.Idem("buy", "k"))), first, "replay")
		p.Equal(p.books("channel"), before, "books after a replay")
		p.Is(dbtest.Error(p.Store.Session(p.Ctx, "two")), database.ErrNotFound, "session of a replay")
		p.Reopen()
	}
	other := dbtest.Idem("buy", "k")
	other.Hash[0]++
	p.refused("channel", database.ErrIdempotencyReuse, "the key of another request", func() error {
		return dbtest.Error(p.Store.Buy(p.Ctx, p.purchase(p.pay(c, 2, 20), 3, "two"), other))
	})
	// A refusal is not recorded.
	p.refused("channel", &ledger.InsufficientFundsError{Required: 50, Available: 11}, "too expensive", func() error {
		return dbtest.Error(p.Store.Buy(p.Ctx, p.purchase(p.pay(c, 2, 20), 50, "two"), dbtest.Idem("buy", "l")))
	})
	got := dbtest.Value(p.Store.Buy(p.Ctx, p.purchase(p.pay(c, 2, 60), 50, "two"), dbtest.Idem("buy", "l")))
	p.Must(got.ID == "two" && got.Total == 1, "session %+v", got)
	p.Clock.Advance(database.IdempotencyRetention)
	p.refused("channel", &ledger.StaleError{Stored: p.pay(c, 2, 60).Proof}, "the same after its retention", func() error {
		return dbtest.Error(p.Store.Buy(p.Ctx, p.purchase(p.pay(c, 1, 10), 3, "three"), dbtest.Idem("buy", "k")))
	})
}
