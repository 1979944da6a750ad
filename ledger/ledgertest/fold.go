package ledgertest

import (
	"fmt"
	"math"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/ledger"
)

var foldChecks = []dbtest.Check{
	check("payments/fold", foldedSales),
	check("payments/fold-in-batches", foldedInBatches),
	check("payments/fold-largest", foldedLargest),
}

// lasting opens a channel that expires after everything that is sold over it.
func (p *probe) lasting(id string) ledger.Channel {
	c := dbtest.Value(p.Store.OpenChannel(p.Ctx, ledger.Channel{
		ID: id, PaymentChannelID: p.Next(), Sender: "s", Receiver: "receiver", Asset: "asset",
		Deposit: 1_000_000, Expires: p.Clock.Now().Add(10 * dbtest.ChannelLife),
	}, nil))
	return c
}

// foldedSales checks that Purge's handling of sales changes no result: the audit finds nothing, no
// payment can be replayed, and a read can be returned until the end of its retention.
func foldedSales(p *probe) {
	c := p.lasting("c")
	p.buys(c, 1, 100, 7, "bought")
	p.reads(c, 2, 130, 3, 4)
	dbtest.Value(p.Store.ReturnCredit(p.Ctx, "c", 2, 3, "r"))
	charged := ledger.ReadPurchase{Offer: p.pay(c, 3, 150), Price: 5, Count: 2, Charge: "charge"}
	dbtest.Value(p.Store.PayRead(p.Ctx, charged))
	p.Session("granted", 5)
	p.buysMore(c, 4, 180, 2, "granted")

	p.Clock.Advance(ledger.SaleRetention - time.Microsecond)
	p.Purge()
	p.Audited()
	before := p.getChannel("c")
	after := dbtest.Value(p.Store.ReturnRead(p.Ctx, charged.Offer.Payment, "charge"))
	p.Must(after.Credit == before.Credit+10, "the return of 2 chunksets at 5 changed the credit to %d from %d", after.Credit, before.Credit)
	p.Audited()

	p.Clock.Advance(time.Microsecond)
	p.Must(p.Purge() > 0, "nothing was purged at the end of the retention of sales")
	p.Audited()
	p.Equal(p.recorded("c"), after, "channel after a purge")
	for sequence, amount := range map[int64]int64{1: 100, 2: 130, 3: 150, 4: 180} {
		stale := &ledger.StaleError{Stored: after.Proof}
		p.refusedPayment("c", p.pay(c, sequence, amount), stale, fmt.Sprint("replay of ", sequence))
	}
	p.Clock.Advance(sessionLife + ledger.SessionRetention)
	p.Purge()
	for _, id := range []string{"bought", "granted"} {
		p.Is(dbtest.Error(p.Store.Session(p.Ctx, id)), database.ErrNotFound, "session past its retention")
	}
	p.Audited()
	p.reads(c, 5, 200, 1, after.Credit+20)
	p.Must(p.getChannel("c").Credit == 0, "the credit was not spent")
	p.Audited()
	p.Reopen()
	p.Audited()
}

// foldedInBatches purges in small batches: the audit must find nothing after each call, and the
// calls must end.
func foldedInBatches(p *probe) {
	for _, id := range []string{"c", "d"} {
		c := p.lasting(id)
		p.buys(c, 1, 10, 1, "session "+id)
		for i := range int64(20) {
			if i%2 == 0 {
				p.reads(c, 2+i, 20+10*i, 1+i%3, 2)
			} else {
				p.buysMore(c, 2+i, 20+10*i, 1+i%3, "session "+id)
			}
			dbtest.Value(p.Store.ReturnCredit(p.Ctx, id, 1, 1, fmt.Sprint(i)))
		}
	}
	channels := []ledger.Channel{p.recorded("c"), p.recorded("d")}
	for _, step := range []time.Duration{ledger.SaleRetention, 10 * ledger.SessionRetention} {
		p.Clock.Advance(step)
		for calls := 0; ; calls++ {
			p.Must(calls < 100, "the purge does not end")
			n := dbtest.Value(p.Store.Purge(p.Ctx, 3))
			p.Must(n <= 5*3, "a purge by 3 handled %d rows", n)
			p.Audited()
			if n == 0 {
				p.Must(calls > 3, "%d calls purged everything in batches of 3", calls)
				break
			}
		}
		for _, c := range channels {
			p.Equal(p.recorded(c.ID), c, "channel after purges")
		}
	}
}

// foldedLargest sells the greatest amount several times, with returns in between, and purges in the
// smallest batches. The sales that are folded first exceed the greatest amount in sum.
func foldedLargest(p *probe) {
	c := dbtest.Value(p.Store.OpenChannel(p.Ctx, ledger.Channel{
		ID: "c", PaymentChannelID: p.Next(), Sender: "s", Receiver: "receiver", Asset: "asset",
		Deposit: math.MaxInt64, Expires: p.Clock.Now().Add(10 * dbtest.ChannelLife),
	}, nil))
	p.reads(c, 1, math.MaxInt64-10, math.MaxInt64-10, 1)
	for i := range int64(3) {
		dbtest.Value(p.Store.ReturnCredit(p.Ctx, "c", 1, math.MaxInt64-10, fmt.Sprint("r", i)))
		if i%2 == 0 {
			p.reads(c, 2+i, math.MaxInt64-9+i, 1, math.MaxInt64-10)
		} else {
			p.buys(c, 2+i, math.MaxInt64-9+i, math.MaxInt64-10, "bought")
		}
	}
	p.Audited()
	for _, step := range []time.Duration{ledger.SaleRetention, 10 * ledger.SessionRetention} {
		p.Clock.Advance(step)
		for calls := 0; ; calls++ {
			p.Must(calls < 100, "the purge does not end")
			n := dbtest.Value(p.Store.Purge(p.Ctx, 1))
			p.Audited()
			if n == 0 {
				break
			}
		}
	}
}
