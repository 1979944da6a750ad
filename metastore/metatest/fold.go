package metatest

import (
	"fmt"
	"math"
	"time"

	"sluice/database"
	"sluice/ledger"
)

func foldChecks() []Check {
	return []Check{
		check("payments/fold", foldedSales),
		check("payments/fold-in-batches", foldedInBatches),
		check("payments/fold-largest", foldedLargest),
	}
}

// lasting opens a channel that expires after everything that is sold over it.
func (p *probe) lasting(id string) ledger.Channel {
	p.keys++
	c, err := p.store.OpenChannel(p.ctx, ledger.Channel{
		ID: id, PaymentChannelID: int64(p.keys), Sender: "s", Receiver: "receiver", Asset: "asset",
		Deposit: 1_000_000, Expires: p.clock.Now().Add(10 * channelLife),
	}, nil)
	p.ok(err, "open channel")
	return c
}

// foldedSales checks that Purge's handling of sales changes no result: the audit finds nothing, no
// payment can be replayed, and a read can be returned until the end of its retention.
func foldedSales(p *probe) {
	c := p.lasting("c")
	p.buys(c, 1, 100, 7, "bought")
	p.reads(c, 2, 130, 3, 4)
	_, err := p.store.ReturnCredit(p.ctx, "c", 2, 3, "r")
	p.ok(err, "return")
	charged := ledger.ReadPurchase{Payment: p.pay(c, 3, 150), Price: 5, Count: 2, Charge: "charge"}
	_, err = p.store.PayRead(p.ctx, charged)
	p.ok(err, "read")
	p.session("granted", 5)
	p.buysMore(c, 4, 180, 2, "granted")

	p.clock.Advance(ledger.SaleRetention - time.Microsecond)
	p.purge()
	p.audited()
	before := p.getChannel("c")
	after, err := p.store.ReturnRead(p.ctx, charged.Payment, "charge")
	p.ok(err, "return of a read at the end of its retention")
	p.must(after.Credit == before.Credit+10, "the return of 2 chunksets at 5 changed the credit to %d from %d", after.Credit, before.Credit)
	p.audited()

	p.clock.Advance(time.Microsecond)
	p.must(p.purge() > 0, "nothing was purged at the end of the retention of sales")
	p.audited()
	p.equal(p.recorded("c"), after, "channel after a purge")
	for sequence, amount := range map[int64]int64{1: 100, 2: 130, 3: 150, 4: 180} {
		stale := &ledger.StaleError{Stored: after.Proof}
		p.refusedPayment("c", p.pay(c, sequence, amount), stale, fmt.Sprint("replay of ", sequence))
	}
	p.clock.Advance(sessionLife + ledger.SessionRetention)
	p.purge()
	for _, id := range []string{"bought", "granted"} {
		_, err := p.store.Session(p.ctx, id)
		p.is(err, database.ErrNotFound, "session past its retention")
	}
	p.audited()
	p.reads(c, 5, 200, 1, after.Credit+20)
	p.must(p.getChannel("c").Credit == 0, "the credit was not spent")
	p.audited()
	p.reopen()
	p.audited()
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
			_, err := p.store.ReturnCredit(p.ctx, id, 1, 1, fmt.Sprint(i))
			p.ok(err, "return")
		}
	}
	channels := []ledger.Channel{p.recorded("c"), p.recorded("d")}
	for _, step := range []time.Duration{ledger.SaleRetention, 10 * ledger.SessionRetention} {
		p.clock.Advance(step)
		for calls := 0; ; calls++ {
			p.must(calls < 100, "the purge does not end")
			n, err := p.store.Purge(p.ctx, 3)
			p.ok(err, "purge")
			p.must(n <= 5*3, "a purge by 3 handled %d rows", n)
			p.audited()
			if n == 0 {
				p.must(calls > 3, "%d calls purged everything in batches of 3", calls)
				break
			}
		}
		for _, c := range channels {
			p.equal(p.recorded(c.ID), c, "channel after purges")
		}
	}
}

// foldedLargest sells the greatest amount several times, with returns in between, and purges in the
// smallest batches. The sales that are folded first exceed the greatest amount in sum.
func foldedLargest(p *probe) {
	p.keys++
	c, err := p.store.OpenChannel(p.ctx, ledger.Channel{
		ID: "c", PaymentChannelID: int64(p.keys), Sender: "s", Receiver: "receiver", Asset: "asset",
		Deposit: math.MaxInt64, Expires: p.clock.Now().Add(10 * channelLife),
	}, nil)
	p.ok(err, "open channel")
	p.reads(c, 1, math.MaxInt64-10, math.MaxInt64-10, 1)
	for i := range int64(3) {
		_, err := p.store.ReturnCredit(p.ctx, "c", 1, math.MaxInt64-10, fmt.Sprint("r", i))
		p.ok(err, "return")
		if i%2 == 0 {
			p.reads(c, 2+i, math.MaxInt64-9+i, 1, math.MaxInt64-10)
		} else {
			p.buys(c, 2+i, math.MaxInt64-9+i, math.MaxInt64-10, "bought")
		}
	}
	p.audited()
	for _, step := range []time.Duration{ledger.SaleRetention, 10 * ledger.SessionRetention} {
		p.clock.Advance(step)
		for calls := 0; ; calls++ {
			p.must(calls < 100, "the purge does not end")
			n, err := p.store.Purge(p.ctx, 1)
			p.ok(err, "purge")
			p.audited()
			if n == 0 {
				break
			}
		}
	}
}
