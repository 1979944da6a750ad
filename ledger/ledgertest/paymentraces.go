package ledgertest

import (
	"errors"
	"fmt"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/ledger"
)

var paymentRaceChecks = []dbtest.Check{
	check("payments/racing-replays", paymentRacingReplays),
	check("payments/racing-increasing", paymentRacingIncreasing),
	check("payments/racing-key", paymentRacingKey),
	check("payments/racing-binds", paymentRacingBinds),
	check("payments/racing-close", paymentRacingClose),
	check("payments/racing-limit", paymentRacingLimit),
	check("payments/racing-refills", paymentRacingRefills),
	check("payments/racing-returns", paymentRacingReturns),
}

// paymentRacingReplays sends one payment many times concurrently, to buy a session and to read.
func paymentRacingReplays(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	const n = 16
	c := p.Channel("channel", "s", 1000)
	for round := range int64(10) {
		pay := p.pay(c, round, 10*(round+1))
		before := p.getChannel("channel")
		errs := dbtest.Race(n, func(i int) error {
			var err error
			if i%4 < 2 {
				_, err = handles[i%2].Buy(p.Ctx, p.purchase(pay, 2, fmt.Sprint(round, "-", i)), nil)
			} else {
				_, err = handles[i%2].PayRead(p.Ctx, ledger.ReadPurchase{Offer: pay, Price: 2, Count: 5 + before.Credit/2})
			}
			return err
		})
		p.Won(errs, 1, &ledger.StaleError{Stored: pay.Proof})
		after := p.getChannel("channel")
		p.Must(after.Accepted == pay.Amount && after.Credit == 0, "after round %d: %+v", round, after)
		for i := range n {
			_, err := p.Store.Session(p.Ctx, fmt.Sprint(round, "-", i))
			if errs[i] != nil || i%4 >= 2 {
				p.Is(err, database.ErrNotFound, "session of a payment that lost")
			} else {
				p.OK(err, "session of the payment that won")
			}
		}
	}
	p.Audited()
}

// paymentRacingIncreasing sends increasing payments concurrently, in random order.
func paymentRacingIncreasing(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	const n = 32
	for round := range 5 {
		id := fmt.Sprint("channel", round)
		c := p.Channel(id, "s", 10_000)
		sold := make([]int64, n)
		errs := dbtest.Race(n, func(i int) error {
			k := int64((i*13 + round) % n) // a permutation
			pay := p.pay(c, k, 7*(k+1))
			if i%3 == 0 {
				got, err := handles[i%2].PayRead(p.Ctx, ledger.ReadPurchase{Offer: pay, Price: 1, Count: 3})
				if err == nil && got.Accepted != pay.Amount {
					err = fmt.Errorf("accepted %d of %d", got.Accepted, pay.Amount)
				}
				sold[i] = 3
				return err
			}
			s, err := handles[i%2].Buy(p.Ctx, p.purchase(pay, 1, fmt.Sprint(round, "-", i)), nil)
			sold[i] = s.Total
			return err
		})
		got := p.getChannel(id)
		highest, sum := int64(0), int64(0)
		for i, err := range errs {
			if err != nil {
				p.Is(err, ledger.ErrStalePayment, "payment that lost")
				var stale *ledger.StaleError
				p.Must(errors.As(err, &stale) && len(stale.Stored) > 0, "a stale payment without the stored one: %v", err)
				continue
			}
			highest = max(highest, 7*(int64((i*13+round)%n)+1))
			sum += sold[i]
		}
		p.Must(highest == 7*n, "the highest payment was refused")
		p.Must(got.Accepted == highest && sum+got.Credit == highest, "the accepted amount is %d, the sold amount %d with a credit of %d; the highest payment was %d",
			got.Accepted, sum, got.Credit, highest)
		p.Equal(p.books(id).settlements[0].Amount, highest, "the first settlement")
		p.Clock.Advance(paymentLife)
	}
	p.Audited()
}

// paymentRacingKey sends one purchase with one key many times concurrently.
func paymentRacingKey(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	c := p.Channel("channel", "s", 1000)
	for round := range int64(10) {
		const n = 8
		got := make([]ledger.Session, n)
		errs := dbtest.Race(n, func(i int) (err error) {
			got[i], err = handles[i%2].Buy(p.Ctx, p.purchase(p.pay(c, round, 10*(round+1)), 1, fmt.Sprint(round, "-", i)), dbtest.Idem("buy", fmt.Sprint(round)))
			return err
		})
		p.OK(errors.Join(errs...), "racing purchases with one key")
		for i := range n {
			p.Equal(got[i], got[0], "session %d of round %d", i, round)
		}
		books := p.books("channel")
		p.Must(len(books.sessions) == int(round)+1, "%d sessions after %d purchases", len(books.sessions), round+1)
		p.Must(books.channel.Accepted == 10*(round+1), "%d was accepted", books.channel.Accepted)
	}
	p.Audited()
}

// paymentRacingBinds has two senders pay concurrently over one unbound channel.
func paymentRacingBinds(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	for round := range 20 {
		id := fmt.Sprint("channel", round)
		c := p.Channel(id, "", 100)
		errs := dbtest.Race(2, func(i int) error {
			pay := p.pay(c, 1, int64(10+i))
			pay.Sender = []string{"s", "t"}[i]
			_, err := handles[(i+round)%2].Buy(p.Ctx, p.purchase(pay, 1, fmt.Sprint(round, "-", i)), nil)
			return err
		})
		p.Won(errs, 1, ledger.ErrNoChannel)
		want := ledger.Channel{Sender: "s", Accepted: 10}
		if errs[0] != nil {
			want = ledger.Channel{Sender: "t", Accepted: 11}
		}
		got := p.getChannel(id)
		p.Must(got.Sender == want.Sender && got.Accepted == want.Accepted, "channel %+v, errors %v", got, errs)
	}
	p.Audited()
}

// paymentRacingClose pays and closes concurrently: a payment is accepted before the close, or not
// at all.
func paymentRacingClose(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	for round := range 10 {
		id := fmt.Sprint("channel", round)
		c := p.Channel(id, "s", 1000)
		var closed ledger.Channel
		errs := dbtest.Race(6, func(i int) (err error) {
			if i == 0 {
				closed, err = handles[round%2].CloseChannel(p.Ctx, id)
				return err
			}
			for k := range int64(4) {
				_, err := handles[i%2].PayRead(p.Ctx, ledger.ReadPurchase{Offer: p.pay(c, 10*k+int64(i), 10*k+int64(i)), Price: 1, Count: 1})
				if err != nil && !errors.Is(err, ledger.ErrChannelClosed) && !errors.Is(err, ledger.ErrStalePayment) {
					return err
				}
			}
			return nil
		})
		p.OK(errors.Join(errs...), "pay and close")
		p.Equal(p.getChannel(id), closed, "channel after it was closed")
		p.refusedPayment(id, p.pay(c, 100, 100), ledger.ErrChannelClosed, "after the close")
	}
}

// paymentRacingLimit sends payments that compete for the unsettled limit.
func paymentRacingLimit(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	c := p.Channel("channel", "s", 1000)
	errs := dbtest.Race(16, func(i int) error {
		pay := p.pay(c, int64(i+1), int64(i+1))
		pay.UnsettledLimit = 8
		_, err := handles[i%2].PayRead(p.Ctx, ledger.ReadPurchase{Offer: pay, Price: 1, Count: 1})
		return err
	})
	for i, err := range errs {
		if i >= 8 { // above the limit, whatever was accepted before
			p.Is(err, ledger.ErrUnsettledLimit, "payment of %d", i+1)
		} else if err != nil {
			p.Is(err, ledger.ErrStalePayment, "payment of %d", i+1)
		}
	}
	p.Must(p.getChannel("channel").Accepted == 8, "%d was accepted", p.getChannel("channel").Accepted)
	p.Audited()
}

// paymentRacingRefills refills a session over many channels while it is used.
func paymentRacingRefills(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	const n, each = 8, 5
	p.Session("session", 3)
	var channels []ledger.Channel
	for i := range n {
		channels = append(channels, p.Channel(fmt.Sprint("channel", i), "s", 1000))
	}
	used := make([]int64, n)
	errs := dbtest.Race(n, func(i int) error {
		for k := range int64(each) {
			buy := p.purchase(p.pay(channels[i], k, 4*(k+1)), 2, "session")
			buy.Refill = true
			if _, err := handles[i%2].Buy(p.Ctx, buy, nil); err != nil {
				return err
			}
			switch _, err := handles[(i+1)%2].UseSession(p.Ctx, "session", 3, nil); {
			case err == nil:
				used[i] += 3
			case !errors.Is(err, ledger.ErrExhausted):
				return err
			}
		}
		return nil
	})
	p.OK(errors.Join(errs...), "concurrent refills and uses")
	sum := int64(0)
	for _, u := range used {
		sum += u
	}
	s := dbtest.Value(p.Store.Session(p.Ctx, "session"))
	p.Must(s.Total == 3+2*n*each && s.Used == sum && s.Left == s.Total-sum, "%d were used: %+v", sum, s)
	p.Audited()
}

// paymentRacingReturns repeats one return concurrently, and makes more different returns than there
// were sales.
func paymentRacingReturns(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	c := p.Channel("channel", "s", 100)
	p.reads(c, 1, 35, 2, 17)
	for _, err := range dbtest.Race(8, func(i int) error { return dbtest.Error(handles[i%2].ReturnCredit(p.Ctx, "channel", 5, 2, "one")) }) {
		p.OK(err, "return")
	}
	p.Must(p.getChannel("channel").Credit == 11, "the credit is %d after one return of 10 to 1", p.getChannel("channel").Credit)
	p.Won(dbtest.Race(8, func(i int) error {
		return dbtest.Error(handles[i%2].ReturnCredit(p.Ctx, "channel", 5, 2, fmt.Sprint(i)))
	}), 2, dbtest.ErrAny)
	p.Must(p.getChannel("channel").Credit == 31, "the credit is %d", p.getChannel("channel").Credit)
	p.Audited()
}
