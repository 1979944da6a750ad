package metatest

import (
	"strings"
	"time"

	"sluice/metastore"
)

func settlementChecks() []Check {
	return []Check{
		check("settlements/list", settlementList),
		check("settlements/settle", settlementSettle),
		check("settlements/racing", settlementRacing),
		check("settlements/collect", settlementCollect),
		check("audit/payout", auditPayout),
	}
}

// settlement is what a payment of probe.pay leads to.
func settlement(pay metastore.Payment, channel string) metastore.Settlement {
	return metastore.Settlement{Channel: channel, Sequence: pay.Sequence, Amount: pay.Amount, Proof: pay.Proof, Expires: pay.Expires}
}

func settlementList(p *probe) {
	list := func(limit int, want ...metastore.Settlement) {
		got, err := p.store.Settlements(p.ctx, metastore.Settlement{}, limit)
		p.ok(err, "settlements")
		p.equal(got, want, "settlements up to %d", limit)
		for i, after := range got {
			rest, err := p.store.Settlements(p.ctx, after, limit)
			p.ok(err, "settlements behind the first %d", i+1)
			p.must(len(rest) >= len(got)-i-1, "%d settlements behind %d of %d", len(rest), i+1, len(got))
			p.equal(rest[:len(got)-i-1], got[i+1:], "settlements behind the first %d", i+1)
		}
	}
	list(10)
	send := func(c metastore.Channel, sequence, amount int64, life time.Duration) metastore.Settlement {
		pay := p.pay(c, sequence, amount)
		pay.Expires = p.clock.Now().Add(life)
		_, err := p.store.PayRead(p.ctx, metastore.Read{Payment: pay, Price: 1, Count: 1})
		p.ok(err, "read")
		return settlement(pay, c.ID)
	}
	a, b, c := p.channel("a", "s", 100), p.channel("b", "", 100), p.channel("c", "t", 100)
	first := send(a, 1, 10, 30*time.Second)
	second := send(b, 1, 20, 10*time.Second)
	third := send(c, 1, 30, 20*time.Second)
	list(10, second, third, first)
	list(2, second, third)
	second = send(b, 2, 25, 40*time.Second) // in place of the pending one
	list(10, third, first, second)
	p.clock.Advance(20*time.Second - time.Microsecond)
	p.reopen()
	list(10, third, first, second)
	p.clock.Advance(time.Microsecond)
	list(10, first, second)
	p.audited() // the expired one is still known
	_, err := p.store.CloseChannel(p.ctx, "a")
	p.ok(err, "close")
	list(10, first, second) // what was accepted is collected all the same
	third = send(c, 2, 31, 5*time.Second)
	list(10, third, first, second)
	p.purge()
	list(10, third, first, second)
	p.clock.Advance(time.Hour)
	p.purge()
	list(10)
	p.audited()
}

func settlementSettle(p *probe) {
	c := p.channel("channel", "s", 100)
	p.ok(p.store.Settle(p.ctx, "channel", 0, 0), "settle of nothing")
	p.refused("channel", errAny, "settle before anything was accepted", func() error { return p.store.Settle(p.ctx, "channel", 1, 1) })
	for i, amount := range []int64{10, 20, 30} {
		p.reads(c, int64(i+1), amount, 1, 1)
	}
	pending := settlement(p.pay(c, 3, 30), "channel")
	state := func(settled int64, want ...metastore.Settlement) {
		books := p.books("channel")
		p.must(books.channel.Settled == settled, "%d is settled, want %d", books.channel.Settled, settled)
		p.equal(books.settlements, want, "settlements with %d settled", settled)
		p.audited()
	}
	state(0, pending)
	p.ok(p.store.Settle(p.ctx, "channel", 2, 20), "settle an older one")
	state(20, pending)
	p.ok(p.store.Settle(p.ctx, "channel", 1, 10), "settle a still older one")
	state(20, pending)
	p.refused("channel", errAny, "settle more than was accepted", func() error { return p.store.Settle(p.ctx, "channel", 4, 31) })
	for range 3 {
		p.ok(p.store.Settle(p.ctx, "channel", 3, 30), "settle")
		state(30)
		p.reopen()
	}
	p.reads(c, 4, 40, 1, 1)
	pending = settlement(p.pay(c, 4, 40), "channel")
	p.ok(p.store.Settle(p.ctx, "channel", 3, 30), "settle the older one again")
	state(30, pending)
	p.is(p.store.Settle(p.ctx, "channe", 1, 1), metastore.ErrNotFound, "settle of an unknown channel")
	_, err := p.store.CloseChannel(p.ctx, "channel")
	p.ok(err, "close")
	p.clock.Advance(channelLife)
	p.ok(p.store.Settle(p.ctx, "channel", 4, 40), "settle of a closed channel, late")
	state(40)
}

// settlementRacing settles while payments arrive: no payment is lost between.
func settlementRacing(p *probe) {
	handles := []metastore.Store{p.store, p.open()}
	c := p.channel("channel", "s", 1000)
	const n = 30
	errs := race(3, func(i int) error {
		for k := int64(1); k <= n; k++ {
			if i == 0 {
				if _, err := handles[0].PayRead(p.ctx, metastore.Read{Payment: p.pay(c, k, 10*k), Price: 1, Count: 1}); err != nil {
					return err
				}
				continue
			}
			list, err := handles[1].Settlements(p.ctx, metastore.Settlement{}, 10)
			for _, s := range list {
				if err == nil {
					err = handles[i%2].Settle(p.ctx, s.Channel, s.Sequence, s.Amount)
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	for _, err := range errs {
		p.ok(err, "payments and settlements at once")
	}
	got := p.books("channel")
	if got.channel.Settled < 10*n {
		p.equal(got.settlements, []metastore.Settlement{settlement(p.pay(c, n, 10*n), "channel")}, "settlements at the end")
	} else {
		p.must(len(got.settlements) == 0, "a settlement waits that was collected")
	}
	p.audited()
}

func settlementCollect(p *probe) {
	handles := []metastore.Store{p.store, p.open()}
	c := p.channel("channel", "s", 100)
	var all []metastore.Settlement
	for i := range int64(4) {
		p.reads(c, i+1, 10*(i+1), 1, 1)
		all = append(all, settlement(p.pay(c, i+1, 10*(i+1)), "channel"))
	}
	for _, i := range []int{2, 0, 2, 3, 0} { // in any order, any number of times
		p.ok(p.store.Collect(p.ctx, all[i]), "collect")
		p.audited()
	}
	for _, err := range race(8, func(i int) error { return handles[i%2].Collect(p.ctx, all[1]) }) {
		p.ok(err, "racing collects")
	}
	p.must(p.getChannel("channel").Settled == 0, "collecting alone settled the channel")
	p.reopen()
	p.audited()
}

// auditPayout pays out what was never accepted: that is found, and told
// without the whole of an id.
func auditPayout(p *probe) {
	const id = "unguessable-channel"
	c := p.channel(id, "s", 100)
	p.reads(c, 5, 50, 1, 1)
	p.audited()
	for i, s := range []metastore.Settlement{
		{Channel: id, Sequence: 6, Amount: 51},
		{Channel: "unguessable-other", Sequence: 1, Amount: 1},
		{Channel: id, Sequence: 4, Amount: 60},
	} {
		p.ok(p.store.Collect(p.ctx, s), "collect")
		found, err := p.store.Audit(p.ctx)
		p.ok(err, "audit")
		p.must(len(found) > i, "after %d wrong payouts the audit found: %q", i+1, found)
		for _, sentence := range found {
			p.must(strings.Contains(sentence, "unguessable"[:6]) && !strings.Contains(sentence, "unguessable"[:7]),
				"the audit says: %s", sentence)
		}
	}
}
