package ledgertest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/ledger"
)

var settlementChecks = []dbtest.Check{
	check("settlements/list", settlementList),
	check("settlements/pay-out-one", settlementBookOne),
	check("settlements/racing", settlementRacing),
	check("settlements/any-order", settlementAnyOrder),
	check("settlements/pay-out", settlementBookMany),
	check("settlements/racing-pay-outs", racingBookings),
	check("settlements/uncollected", settlementUncollected),
	check("audit/withdrawn", auditWithdrawn),
}

// settlement returns the pending settlement after a payment of probe.pay.
func settlement(pay ledger.Offer, channel string) ledger.Settlement {
	return ledger.Settlement{Channel: channel, Sequence: pay.Sequence, Amount: pay.Amount, Proof: pay.Proof, Expires: pay.Expires}
}

// book books one settlement.
func (p *probe) book(channel string, sequence, amount int64) error {
	return p.Store.Book(p.Ctx, []ledger.Settlement{{Channel: channel, Sequence: sequence, Amount: amount}})
}

func settlementList(p *probe) {
	list := func(limit int, want ...ledger.Settlement) {
		got := dbtest.Value(p.Store.Settlements(p.Ctx, ledger.Settlement{}, limit))
		p.Equal(got, want, "settlements up to %d", limit)
		for i, after := range got {
			rest, err := p.Store.Settlements(p.Ctx, after, limit)
			p.OK(err, "settlements after the first %d", i+1)
			p.Must(len(rest) >= len(got)-i-1, "%d settlements after %d of %d", len(rest), i+1, len(got))
			p.Equal(rest[:len(got)-i-1], got[i+1:], "settlements after the first %d", i+1)
		}
	}
	list(10)
	send := func(c ledger.Channel, sequence, amount int64, life time.Duration) ledger.Settlement {
		pay := p.pay(c, sequence, amount)
		pay.Expires = p.Clock.Now().Add(life)
		dbtest.Value(p.Store.PayRead(p.Ctx, ledger.ReadPurchase{Offer: pay, Price: 1, Count: 1}))
		return settlement(pay, c.ID)
	}
	a, b, c := p.Channel("a", "s", 100), p.Channel("b", "", 100), p.Channel("c", "t", 100)
	first := send(a, 1, 10, 30*time.Second)
	second := send(b, 1, 20, 10*time.Second)
	third := send(c, 1, 30, 20*time.Second)
	list(10, second, third, first)
	list(2, second, third)
	second = send(b, 2, 25, 40*time.Second) // instead of the pending one
	list(10, third, first, second)
	p.Clock.Advance(20*time.Second - time.Microsecond)
	p.Reopen()
	list(10, third, first, second)
	p.Clock.Advance(time.Microsecond)
	list(10, third, first, second) // an expired one is still owed
	p.Audited()
	dbtest.Value(p.Store.CloseChannel(p.Ctx, "a"))
	list(10, third, first, second) // an accepted payment can still be collected
	third = send(c, 2, 31, 15*time.Second)
	list(10, first, third, second)
	p.Clock.Advance(time.Hour)
	p.Purge()
	list(10, first, third, second)
	p.Audited()
	p.OK(p.Store.Book(p.Ctx, []ledger.Settlement{first, third, second}), "book expired payments")
	list(10)
	p.Audited()
}

// settlementBookOne books payments of one channel, older and newer ones, in each of its states.
func settlementBookOne(p *probe) {
	c := p.Channel("channel", "s", 100)
	p.refused("channel", dbtest.ErrAny, "book before anything was accepted", func() error { return p.book("channel", 1, 1) })
	for i, amount := range []int64{10, 20, 30} {
		p.reads(c, int64(i+1), amount, 1, 1)
	}
	pending := settlement(p.pay(c, 3, 30), "channel")
	state := func(settled int64, want ...ledger.Settlement) {
		books := p.books("channel")
		p.Must(books.channel.Settled == settled, "%d is settled, want %d", books.channel.Settled, settled)
		p.Equal(books.settlements, want, "settlements with %d settled", settled)
		p.Audited()
	}
	state(0, pending)
	p.OK(p.book("channel", 2, 20), "book an older one")
	state(20, pending)
	p.OK(p.book("channel", 1, 10), "book a still older one")
	state(20, pending)
	p.refused("channel", dbtest.ErrAny, "book more than was accepted", func() error { return p.book("channel", 4, 31) })
	for range 3 {
		p.OK(p.book("channel", 3, 30), "book")
		state(30)
		p.Reopen()
	}
	p.reads(c, 4, 40, 1, 1)
	pending = settlement(p.pay(c, 4, 40), "channel")
	p.OK(p.book("channel", 3, 30), "book the older one again")
	state(30, pending)
	p.Is(p.book("channe", 1, 1), database.ErrNotFound, "book over an unknown channel")
	dbtest.Value(p.Store.CloseChannel(p.Ctx, "channel"))
	p.Clock.Advance(dbtest.ChannelLife)
	p.OK(p.book("channel", 4, 40), "book over a closed channel, late")
	state(40)
}

// settlementRacing books while payments are accepted: no payment may be lost.
func settlementRacing(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	c := p.Channel("channel", "s", 1000)
	const n = 30
	errs := dbtest.Race(3, func(i int) error {
		for k := int64(1); k <= n; k++ {
			if i == 0 {
				if _, err := handles[0].PayRead(p.Ctx, ledger.ReadPurchase{Offer: p.pay(c, k, 10*k), Price: 1, Count: 1}); err != nil {
					return err
				}
				continue
			}
			list, err := handles[1].Settlements(p.Ctx, ledger.Settlement{}, 10)
			for _, s := range list {
				if err == nil {
					err = handles[i%2].Book(p.Ctx, []ledger.Settlement{s})
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	for _, err := range errs {
		p.OK(err, "concurrent payments and bookings")
	}
	got := p.books("channel")
	if got.channel.Settled < 10*n {
		p.Equal(got.settlements, []ledger.Settlement{settlement(p.pay(c, n, 10*n), "channel")}, "settlements at the end")
	} else {
		p.Must(len(got.settlements) == 0, "a collected settlement is still pending")
	}
	p.Audited()
}

// settlementAnyOrder books a channel's payments in any order, repeatedly and concurrently:
// the newest one is booked last, and is recorded once.
func settlementAnyOrder(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	c := p.Channel("channel", "s", 100)
	var all []ledger.Settlement
	for i := range int64(4) {
		p.reads(c, i+1, 10*(i+1), 1, 1)
		all = append(all, settlement(p.pay(c, i+1, 10*(i+1)), "channel"))
	}
	paid := func(newest ledger.Settlement) time.Time {
		l := dbtest.Value(p.Store.Statement(p.Ctx, "channel"))
		p.Must(l.Booked != nil && l.Booked.Sequence == newest.Sequence && l.Booked.Amount == newest.Amount,
			"the settlement booked last is %+v, want %d at sequence %d", l.Booked, newest.Amount, newest.Sequence)
		p.Must(l.Channel.Settled == newest.Amount, "%d is settled, want %d", l.Channel.Settled, newest.Amount)
		p.Must((l.Pending == nil) == (newest.Sequence == 4), "pending is %+v", l.Pending)
		p.Audited()
		return l.BookedAt
	}
	newest := all[0]
	for _, i := range []int{0, 2, 0, 2, 1} {
		p.OK(p.Store.Book(p.Ctx, all[i:i+1]), "book")
		newest = all[max(i, int(newest.Sequence)-1)]
		paid(newest)
	}
	for _, err := range dbtest.Race(8, func(i int) error { return handles[i%2].Book(p.Ctx, all[i/2:i/2+1]) }) {
		p.OK(err, "concurrent bookings")
	}
	at := paid(all[3])
	p.Clock.Advance(time.Second)
	p.Reopen()
	for _, i := range []int{1, 3} {
		p.OK(p.Store.Book(p.Ctx, all[i:i+1]), "book again")
		p.Equal(paid(all[3]), at, "time of the last booking")
	}
}

// settlementBookMany books many settlements in one call, all of them or none.
func settlementBookMany(p *probe) {
	const n = 105 // more than one statement holds
	var all []ledger.Settlement
	for i := range n {
		c := p.Channel(fmt.Sprintf("channel %03d", i), "s", 100)
		p.reads(c, 1, 10, 1, 1)
		p.reads(c, 3, int64(20+i%5), 1, 1)
		all = append(all, settlement(p.pay(c, 3, int64(20+i%5)), c.ID))
	}
	pending := func() []ledger.Settlement {
		return dbtest.Value(p.Store.Settlements(p.Ctx, ledger.Settlement{}, n))
	}
	p.OK(p.Store.Book(p.Ctx, nil), "book an empty list")
	for label, wrong := range map[string]ledger.Settlement{
		"an amount that was not accepted":    {Channel: all[9].Channel, Sequence: 3, Amount: 99},
		"a sequence that was not accepted":   {Channel: all[9].Channel, Sequence: 4, Amount: all[9].Amount},
		"another amount of the newest":       {Channel: all[9].Channel, Sequence: 3, Amount: 15},
		"a settlement of an unknown channel": {Channel: "unknown", Sequence: 1, Amount: 1},
	} {
		list := append(append([]ledger.Settlement{}, all[:9]...), wrong)
		p.Must(p.Store.Book(p.Ctx, append(list, all[10:]...)) != nil, "book with %s: it is accepted", label)
		p.Must(len(pending()) == n, "book with %s: %d are still pending, want all %d", label, len(pending()), n)
		p.Audited()
	}
	p.OK(p.Store.Book(p.Ctx, []ledger.Settlement{{Channel: all[0].Channel, Sequence: 1, Amount: 10}}), "book an older one")
	p.Must(p.getChannel(all[0].Channel).Settled == 10 && len(pending()) == n, "an older one: the newer must stay pending")
	for range 2 {
		p.OK(p.Store.Book(p.Ctx, all[:n-1]), "book")
		p.Equal(pending(), all[n-1:], "the pending settlements after it")
		for _, s := range all[:n-1] {
			if c := p.getChannel(s.Channel); c.Settled != s.Amount {
				p.Must(false, "%+v, want all settled", c)
			}
		}
		p.Audited()
		p.Reopen()
	}
}

// racingBookings books on several handles while payments are accepted.
func racingBookings(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	const n = 15
	channels := []ledger.Channel{p.Channel("a", "s", 1000), p.Channel("b", "s", 1000), p.Channel("c", "s", 1000)}
	for _, err := range dbtest.Race(4, func(i int) error {
		for k := int64(1); k <= n; k++ {
			if i < 2 {
				for _, c := range channels {
					_, err := handles[i].PayRead(p.Ctx, ledger.ReadPurchase{Offer: p.pay(c, 2*k+int64(i), 20*k+10*int64(i)), Price: 1, Count: 1})
					if err != nil && !errors.Is(err, ledger.ErrStalePayment) {
						return err
					}
				}
				continue
			}
			list, err := handles[i%2].Settlements(p.Ctx, ledger.Settlement{}, 10)
			if err == nil {
				err = handles[i%2].Book(p.Ctx, list)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}) {
		p.OK(err, "concurrent payments and bookings")
	}
	list := dbtest.Value(p.Store.Settlements(p.Ctx, ledger.Settlement{}, 10))
	p.OK(p.Store.Book(p.Ctx, list), "book")
	for _, c := range channels {
		got := p.getChannel(c.ID)
		p.Must(got.Settled == got.Accepted && got.Accepted == 20*n+10, "%+v, want all of %d settled", got, 20*n+10)
	}
	p.Audited()
}

func settlementUncollected(p *probe) {
	want := func(channels, amount int64) {
		u := dbtest.Value(p.Store.Unsettled(p.Ctx))
		p.Equal(u.Expired, ledger.UnsettledSum{Channels: channels, Amount: amount}, "the expired amount")
	}
	want(0, 0)
	a, b := p.Channel("a", "s", 100), p.Channel("b", "s", 100)
	p.reads(a, 1, 10, 1, 1)
	p.reads(b, 1, 20, 1, 1)
	p.OK(p.Store.Book(p.Ctx, []ledger.Settlement{settlement(p.pay(b, 1, 20), "b")}), "book")
	p.reads(b, 2, 27, 1, 1)
	want(0, 0)
	p.Clock.Advance(paymentLife)
	want(2, 17)
	p.reads(a, 2, 30, 1, 1) // replaces it
	want(1, 7)
	p.Clock.Advance(paymentLife)
	want(2, 37)
	p.OK(p.Store.Book(p.Ctx, []ledger.Settlement{settlement(p.pay(a, 2, 30), "a")}), "book late")
	want(1, 7)
}

// auditWithdrawn books over channels of the chain from which nothing was withdrawn. The audit must
// find them, and must not reveal a whole id.
func auditWithdrawn(p *probe) {
	for i, id := range []string{"unguessable-a", "unguessable-b"} {
		c := p.onChain(id, 100)
		s := p.sends(c, 1, 50, 1, time.Minute)
		if i == 0 {
			p.Audited()
		}
		p.OK(p.Store.Book(p.Ctx, []ledger.Settlement{s}), "book")
		found := dbtest.Value(p.Store.Audit(p.Ctx))
		p.Must(len(found) > i, "after %d such bookings the audit found: %q", i+1, found)
		for _, sentence := range found {
			p.Must(strings.Contains(sentence, "unguessable"[:6]) && !strings.Contains(sentence, "unguessable"[:7]),
				"the audit finds: %s", sentence)
		}
	}
}
