package ledgertest

import (
	"strings"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/ledger"
)

var readingChecks = []dbtest.Check{
	check("channels/ahead", channelAhead),
	check("channels/behind", channelBehind),
	check("channels/again", channelAgain),
	check("channels/extended", channelExtended),
	check("channels/elsewhere", channelElsewhere),
	check("channels/restored", channelRestored),
	check("channels/in-flight", channelInFlight),
	check("channels/corrected", channelCorrected),
}

// shows records a reading after a second: the last recorded one, with a change.
func (p *probe) shows(id string, change func(*ledger.Reading)) ledger.Channel {
	p.Clock.Advance(time.Second)
	r := p.reading(p.getChannel(id))
	change(&r)
	return p.shown(id, r)
}

// shown records a reading.
func (p *probe) shown(id string, r ledger.Reading) ledger.Channel {
	c := dbtest.Value(p.Store.RecordReading(p.Ctx, id, r))
	p.Equal(p.recorded(id), c, "the channel after a reading")
	p.Audited()
	return c
}

// withdrawn returns a change to a reading.
func withdrawn(amount, next int64) func(*ledger.Reading) {
	return func(r *ledger.Reading) { r.Withdrawn, r.NextSequence = amount, next }
}

// pendingOf returns a channel's pending settlements.
func (p *probe) pendingOf(id string) []ledger.Settlement {
	var of []ledger.Settlement
	for _, s := range p.books(id).settlements {
		if s.Channel == id {
			of = append(of, s)
		}
	}
	return of
}

// ends records how a channel's submission ended.
func (p *probe) ends(id string, sequence int64, o ledger.Outcome) ledger.Channel {
	p.OK(p.Store.EndSubmission(p.Ctx, id, sequence, o), "end")
	p.Audited()
	return p.recorded(id)
}

// channelAhead checks that a wrong time of the chain is not stored, and has no effect if it was
// stored before.
func channelAhead(p *probe) {
	future := ledger.Channel{
		ID: "future", PaymentChannelID: p.Next(), Sender: "s", Receiver: "receiver", Asset: "asset", Deposit: 100,
		Expires: p.Clock.Now().Add(dbtest.ChannelLife), NextSequence: 1, ChainTime: p.Clock.Now().Add(ledger.MaxChainAhead + time.Microsecond),
	}
	p.Is(dbtest.Error(p.Store.OpenChannel(p.Ctx, future, nil)), ledger.ErrOutdated, "a channel of a ledger of the future")
	p.Is(dbtest.Error(p.Store.Channel(p.Ctx, "future")), database.ErrNotFound, "a channel that was not opened")

	p.onChain("c", 100)
	before := p.getChannel("c")
	p.Clock.Advance(time.Second)
	r := p.reading(before)
	r.Deposit, r.ChainTime = 50, p.Clock.Now().Add(24*time.Hour)
	p.Equal(p.shown("c", r), before, "the channel after a reading of tomorrow's chain")
	r.ChainTime = p.Clock.Now().Add(ledger.MaxChainAhead + time.Microsecond)
	p.Equal(p.shown("c", r), before, "the channel after a reading of a chain that is too far ahead")
	r.Deposit, r.ChainTime = 120, p.Clock.Now().Add(ledger.MaxChainAhead)
	got := p.shown("c", r)
	p.Must(got.Deposit == 120 && got.ChainTime.Equal(r.ChainTime), "after a reading of a chain that is a minute ahead: %+v", got)
	r.Deposit, r.ChainTime = 130, p.Clock.Now()
	p.Must(p.shown("c", r).Deposit == 120, "a reading of an older version of the chain had an effect")
	// The clock is set back, so that the chain's recorded time is in the future.
	p.Clock.Advance(-time.Second)
	r.ChainTime = p.Clock.Now()
	got = p.shown("c", r)
	p.Must(got.Deposit == 130 && got.ChainTime.Equal(r.ChainTime), "after a reading that follows one of the future: %+v", got)

	sub := p.begins(p.sends(got, 1, 10, 1, time.Minute))
	o := p.collected(sub)
	o.Reading.ChainTime, o.Reading.Deposit, o.Withdrawn = p.Clock.Now().Add(24*time.Hour), 7, 10
	after := p.ends("c", 1, o)
	p.Must(after.Settled == 10 && after.Deposit == 130 && after.ChainTime.Equal(r.ChainTime), "collected, with a reading of tomorrow: %+v", after)
}

// channelBehind records readings of fullnodes that are behind, whatever time their chain shows.
func channelBehind(p *probe) {
	c := p.onChain("c", 100)
	sub := p.begins(p.sends(c, 1, 50, 1, time.Minute))
	p.ends("c", 1, ledger.Outcome{State: ledger.Collected, Withdrawn: sub.Amount})
	before := p.recorded("c")
	p.Must(before.Settled == 50 && before.Withdrawn == 50, "collected: %+v", before)
	p.Equal(p.shows("c", withdrawn(0, 1)), before, "the channel after a reading from before the settlement was collected")
	p.Equal(p.shows("c", func(r *ledger.Reading) { r.Created, r.Deposit = r.Created.Add(-time.Second), 7 }), before,
		"the channel after a reading of an earlier channel of that number")
	got := p.shows("c", withdrawn(50, 2))
	p.Must(got.NextSequence == 2 && got.Elsewhere == 0 && got.Stopped == "", "after a reading from after the settlement was collected: %+v", got)
	p.reads(c, 2, 60, 1, 1)
}

// channelAgain ends channels on the chain and opens them again under their numbers.
func channelAgain(p *probe) {
	again := func(r *ledger.Reading) { r.Created, r.Withdrawn, r.Deposit = r.Created.Add(2*time.Hour), 5, 1000 }
	c := p.onChain("c", 100)
	sub := p.begins(p.sends(c, 1, 60, 1, time.Minute))
	p.Clock.Advance(time.Second)
	o := p.collected(sub)
	again(&o.Reading)
	o.Withdrawn = 60
	p.ends("c", 1, o)
	for range 2 {
		got := p.recorded("c")
		p.Must(got.Settled == 60 && got.Collected == 60 && got.Withdrawn == 60 && got.Elsewhere == 0, "collected, and opened again: %+v", got)
		p.Must(got.Deposit == 0 && got.Stopped != "", "collected, and opened again: it sells: %+v", got)
		p.refusedPayment("c", p.pay(c, 2, 70), ledger.ErrChannelStopped, "over a channel that was opened again")
		p.shows("c", again)
	}
	p.shows("c", func(r *ledger.Reading) { again(r); r.Withdrawn = 200 })
	got := p.recorded("c")
	p.Must(got.Settled == 60 && got.Accepted == 60 && got.Stopped != "", "the other channel's withdrawals count: %+v", got)

	// A channel that an earlier version stored: when it was created is not known.
	dbtest.Value(p.Store.OpenChannel(p.Ctx, ledger.Channel{
		ID: "old", PaymentChannelID: p.Next(), Sender: "s", Receiver: "receiver", Asset: "asset", Deposit: 100,
		Expires: p.Clock.Now().Add(dbtest.ChannelLife), NextSequence: 3, Withdrawn: 40, ChainTime: p.Clock.Now(),
	}, nil))
	got = p.shows("old", withdrawn(39, 3))
	p.Must(got.Deposit == 0 && got.Stopped != "" && got.Settled == 40 && got.Withdrawn == 40, "less is withdrawn: %+v", got)
	got = p.shows("old", func(r *ledger.Reading) { r.Deposit, r.Created = 100, p.Clock.Now().Add(-time.Hour) })
	p.Must(got.Stopped == "" && got.ChainCreated.Equal(p.Clock.Now().Add(-time.Hour)), "it was a fullnode that is behind: %+v", got)
}

// channelExtended extends a channel on the chain after it has expired here.
func channelExtended(p *probe) {
	c := p.onChain("c", 100)
	p.reads(c, 1, 10, 1, 1)
	p.Clock.Advance(dbtest.ChannelLife)
	p.refusedPayment("c", p.pay(c, 2, 20), ledger.ErrChannelExpired, "over an expired channel")
	expires := p.Clock.Now().Add(time.Hour)
	got := p.shows("c", func(r *ledger.Reading) { r.Expires = expires })
	p.Must(got.State(p.Clock.Now()) == ledger.ChannelOpen && got.Expires.Equal(expires), "extended: %+v", got)
	p.reads(c, 2, 20, 1, 1)
}

// elsewhere ends the check unless third parties have withdrawn this much from this many channels.
func (p *probe) elsewhere(channels, amount int64) {
	u := dbtest.Value(p.Store.Unsettled(p.Ctx))
	p.Equal(u.Elsewhere, ledger.UnsettledSum{Channels: channels, Amount: amount}, "the amount withdrawn elsewhere")
}

// channelElsewhere withdraws without a submission.
func channelElsewhere(p *probe) {
	p.elsewhere(0, 0)
	c := p.onChain("c", 100)
	p.reads(c, 1, 30, 10, 2) // with a credit of 10
	p.elsewhere(0, 0)
	got := p.shows("c", withdrawn(20, 2))
	p.Must(got.Settled == 20 && got.Elsewhere == 20 && got.Collected == 0 && got.Accepted == 30 && got.Stopped == "" && got.Credit == 10, "a part was withdrawn: %+v", got)
	p.Must(len(p.pendingOf("c")) == 1, "the rest is not pending")
	got = p.shows("c", withdrawn(30, 3))
	p.Must(got.Settled == 30 && got.Elsewhere == 30 && got.Sequence == 1 && len(got.Proof) > 0, "all was withdrawn: %+v", got)
	p.Must(len(p.pendingOf("c")) == 0, "the withdrawn amount is pending")
	p.Equal(p.getChannel("c").Expired, int64(0), "the expired amount")
	got = p.shows("c", withdrawn(45, 7))
	p.Must(got.Settled == 45 && got.Accepted == 30 && got.Elsewhere == 45 && got.Sequence == 1 && len(got.Proof) > 0 && got.Credit == 10 && got.Stopped == "",
		"more was withdrawn than accepted: %+v", got)
	p.elsewhere(1, 45)
	stale := &ledger.StaleError{Stored: got.Proof}
	p.refusedPayment("c", p.pay(c, 6, 50), stale, "with a sequence number that the chain refuses")
	p.refusedPayment("c", p.pay(c, 7, 45), stale, "with an amount that was withdrawn")
	p.Must(p.reads(c, 7, 50, 1, 15).Credit == 0, "the amount to be spent is not the payment and the credit")
	p.Audited()
	p.Purge()
	p.Clock.Advance(ledger.SaleRetention)
	p.Purge()
	p.Audited()

	b := p.onChain("b", 100)
	p.begins(p.sends(b, 1, 10, 1, time.Minute))
	p.ends("b", 1, ledger.Outcome{State: ledger.Expired})
	p.refusedPayment("b", p.pay(b, 2, 20), ledger.ErrChannelStopped, "over a channel with a payment that has expired")
	p.Must(p.getChannel("b").Expired == 10, "%d have expired, want 10", p.getChannel("b").Expired)
	p.Must(p.shows("b", withdrawn(9, 2)).Stopped != "", "it sells before the money is there")
	got = p.shows("b", withdrawn(10, 2))
	p.Must(got.Stopped == "" && got.Settled == 10 && got.Elsewhere == 10, "third parties have withdrawn the expired amount: %+v", got)
	p.Must(p.getChannel("b").Expired == 0, "%d have expired, want none", p.getChannel("b").Expired)
	p.reads(b, 2, 20, 1, 1)
	p.elsewhere(2, 55)
	list := dbtest.Value(p.Store.ListChannels(p.Ctx, "", 10))
	p.Equal(list, []ledger.Channel{p.recorded("b"), p.recorded("c")}, "the channels as they are listed")
	statement := dbtest.Value(p.Store.Statement(p.Ctx, "c"))
	p.Equal(statement.Channel, p.recorded("c"), "the channel of a statement")

	p.begins(p.sends(p.onChain("d", 100), 1, 10, 1, time.Minute))
	p.ends("d", 1, ledger.Outcome{State: ledger.Expired})
	got = p.shows("d", func(r *ledger.Reading) { r.Withdrawn, r.NextSequence, r.Deposit = 10, 2, 90 })
	p.Must(got.Stopped != "" && got.Settled == 10, "third parties have withdrawn the expired amount, and the deposit has shrunk: %+v", got)
	got = p.shows("d", withdrawn(20, 3))
	p.Must(got.Stopped == "" && got.Settled == 20, "more was withdrawn than accepted, which the deposit covers: %+v", got)
}

// channelRestored reads channels of books that were restored from before some payments were
// accepted and collected.
func channelRestored(p *probe) {
	c := p.onChain("c", 100)
	pay := p.pay(c, 1, 30)
	pay.UnsettledLimit = 30
	_, err := p.Store.PayRead(p.Ctx, ledger.ReadPurchase{Offer: pay, Price: 7, Count: 4}) // with a credit of 2
	p.OK(err, "read")
	pending := p.pendingOf("c")
	pay = p.pay(c, 9, 85)
	pay.UnsettledLimit = 30
	p.refusedPayment("c", pay, &ledger.UnsettledLimitError{Limit: 30, Unsettled: 30}, "above the limit")
	got := p.shows("c", withdrawn(80, 9))
	p.Must(got.Accepted == 30 && got.Settled == 80 && got.Credit == 2 && got.Sequence == 1, "restored: %+v", got)
	p.Is(p.Store.BeginSubmission(p.Ctx, submission(pending[0])), database.ErrNotFound, "a submission of the withdrawn amount")
	p.refusedRead("c", &ledger.InsufficientFundsError{Required: 8, Available: 7}, "of more than was paid since", pay, 8, 1)
	dbtest.Value(p.Store.PayRead(p.Ctx, ledger.ReadPurchase{Offer: pay, Price: 7, Count: 1}))
	p.Audited()

	// One was in flight, and its transaction is forgotten by all fullnodes.
	b := p.onChain("b", 100)
	p.begins(p.sends(b, 1, 30, 1, time.Minute))
	p.Clock.Advance(time.Hour)
	r := p.reading(p.getChannel("b"))
	r.Withdrawn, r.NextSequence = 80, 9
	got = p.ends("b", 1, ledger.Outcome{State: ledger.Expired, Reading: r})
	p.Must(got.Accepted == 30 && got.Settled == 80 && got.Elsewhere == 80 && got.Stopped == "" && got.Submitted == 0, "restored: %+v", got)
	p.reads(b, 9, 85, 1, 5)
	p.Audited()
}

// channelCorrected reads channels from a fullnode that lies about withdrawals, and corrects that.
func channelCorrected(p *probe) {
	c := p.onChain("c", 1000)
	sub := p.begins(p.sends(c, 1, 10, 1, time.Minute))
	p.ends("c", 1, p.collected(sub))
	p.sends(p.getChannel("c"), 2, 40, 1, time.Minute)
	lied := p.shows("c", withdrawn(890, 9))
	p.Must(lied.Accepted == 40 && lied.Settled == 890 && lied.Elsewhere == 880, "a fullnode has lied: %+v", lied)
	p.Equal(p.shows("c", withdrawn(10, 2)), lied, "the channel after a reading that is right")
	correct := func(to int64) ledger.Channel {
		return p.shows("c", func(r *ledger.Reading) { withdrawn(to, 3)(r); r.Corrects = true })
	}
	got := correct(10)
	p.Must(got.Accepted == 40 && got.Settled == 10 && got.Collected == 10 && got.Elsewhere == 0 && got.Withdrawn == 10 && got.Stopped == "", "corrected: %+v", got)
	p.Equal(p.getChannel("c").Expired, int64(30), "the amount that is collected after a renewal")
	list := dbtest.Value(p.Store.Corrections(p.Ctx))
	p.Must(len(list) == 1 && strings.HasSuffix(list[0], " channel c: withdrawn 10, not 890; settled 10, not 890; accepted 40, not 40"), "the corrections are %q", list)
	correct(10)
	p.Must(len(dbtest.Value(p.Store.Corrections(p.Ctx))) == 1, "a reading that corrects nothing is recorded")
	p.OK(dbtest.Error(p.Store.Renew(p.Ctx, p.pay(c, 4, 40))), "renew")
	p.reads(p.getChannel("c"), 5, 45, 1, 5)
	got = correct(5)
	p.Must(got.Collected == 5 && got.Settled == 5, "less than was collected is withdrawn: %+v", got)
	again := p.shows("c", func(r *ledger.Reading) { r.Created, r.Corrects = r.Created.Add(time.Hour), true })
	p.Must(again.Stopped != "" && again.Deposit == 0, "opened again, and corrected: it sells: %+v", again)
}

// channelInFlight reads a withdrawal while a submission is in flight. Only its outcome shows who
// has withdrawn it.
func channelInFlight(p *probe) {
	for i, test := range []struct {
		state                          ledger.SubmissionState
		seen, next, collected, settled int64
		stops                          bool
	}{
		{ledger.Collected, 50, 2, 50, 50, false},
		{ledger.Collected, 70, 5, 50, 70, false},
		{ledger.Collected, 95, 5, 50, 95, false},
		{ledger.Expired, 50, 2, 0, 50, false},
		{ledger.Expired, 49, 2, 0, 49, true},
		{ledger.Failed, 70, 9, 0, 70, false},
		{ledger.Failed, 0, 1, 0, 0, true},
		{ledger.Failed, 95, 2, 0, 95, false},
	} {
		id := string(rune('a' + i))
		c := p.onChain(id, 100)
		p.begins(p.sends(c, 4, 50, 1, time.Minute))
		p.sends(c, 5, 80, 1, time.Minute)
		got := p.shows(id, withdrawn(test.seen, test.next))
		p.Must(got.Settled == 0 && got.Submitted == 50 && got.Withdrawn == test.seen && got.Accepted == 80, "%d: in flight: %+v", i, got)
		p.Must((len(p.pendingOf(id)) == 0) == (test.seen >= 80), "%d: in flight: pending is %+v", i, p.pendingOf(id))
		p.Equal(p.getChannel(id).Expired, int64(0), "the expired amount while it is in flight")
		p.Reopen()
		got = p.ends(id, 4, ledger.Outcome{State: test.state, Status: "abort", Withdrawn: test.collected})
		p.Must(got.Settled == test.settled && got.Collected == test.collected && got.Elsewhere == test.settled-test.collected && (got.Stopped != "") == test.stops,
			"%d: at the end: %+v", i, got)
	}
}
