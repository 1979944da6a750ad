package metatest

import (
	"time"

	"sluice/database"
	"sluice/database/whole"
	"sluice/ledger"
)

func submissionChecks() []Check {
	return []Check{
		check("submissions/due", submissionDue),
		check("submissions/settle-at", submissionSettleAt),
		check("submissions/outcomes", submissionOutcomes),
		check("submissions/newer", submissionNewer),
		check("submissions/gone", submissionGone),
		check("submissions/racing", submissionRacing),
		check("submissions/many", submissionMany),
		check("submissions/halt", submissionHalt),
		check("submissions/unsettled", submissionUnsettled),
		check("submissions/overdue", submissionOverdue),
		check("channels/on-chain", channelOnChain),
		check("channels/readings", channelReadings),
	}
}

// onChain opens a channel that was read from the chain, with nothing withdrawn yet.
func (p *probe) onChain(id string, deposit int64) ledger.Channel {
	p.keys++
	c, err := p.store.OpenChannel(p.ctx, ledger.Channel{
		ID: id, PaymentChannelID: int64(p.keys), Sender: "s", Receiver: "receiver", Asset: "asset",
		Deposit: deposit, Expires: p.clock.Now().Add(channelLife), NextSequence: 1, ChainTime: p.clock.Now(), ChainCreated: p.clock.Now().Add(-time.Hour),
	}, nil)
	p.ok(err, "open channel")
	return c
}

// reading returns what is read of a channel now, if nothing has changed.
func (p *probe) reading(c ledger.Channel) ledger.Reading {
	return ledger.Reading{
		Deposit: c.Deposit, Withdrawn: c.Withdrawn, NextSequence: c.NextSequence, Expires: c.Expires, Created: c.ChainCreated, ChainTime: p.clock.Now(),
	}
}

// sends accepts a payment of a life over a channel, which is due at an unsettled amount.
func (p *probe) sends(c ledger.Channel, sequence, amount, settleAt int64, life time.Duration) ledger.Settlement {
	pay := p.pay(c, sequence, amount)
	pay.Expires, pay.SettleAt = p.clock.Now().Add(life), settleAt
	_, err := p.store.PayRead(p.ctx, ledger.ReadPurchase{Payment: pay, Price: 1, Count: 1})
	p.ok(err, "read")
	return settlement(pay, c.ID)
}

func submission(s ledger.Settlement) ledger.Submission {
	return ledger.Submission{
		Channel: s.Channel, Sequence: s.Sequence, Amount: s.Amount, Expires: s.Expires,
		Hash: [32]byte{byte(s.Sequence), 0xff}, Body: append([]byte{0}, s.Proof...),
	}
}

// begins begins the submission of a settlement.
func (p *probe) begins(s ledger.Settlement) ledger.Submission {
	sub := submission(s)
	p.ok(p.store.BeginSubmission(p.ctx, sub), "begin the submission of %d", s.Sequence)
	sub.Begun = p.clock.Now()
	return sub
}

// collected is the outcome of a submission over a channel that was collected.
func (p *probe) collected(s ledger.Submission) ledger.Outcome {
	r := p.reading(p.getChannel(s.Channel))
	r.Withdrawn, r.NextSequence = s.Amount, s.Sequence+1
	return ledger.Outcome{State: ledger.Collected, Reading: r}
}

func (p *probe) due(ahead time.Duration, want ...ledger.Settlement) {
	got, err := p.store.DueSettlements(p.ctx, ahead, ledger.Settlement{}, 10)
	p.ok(err, "due settlements")
	p.equal(got, want, "what is due %s ahead", ahead)
	for i, after := range got {
		rest, err := p.store.DueSettlements(p.ctx, ahead, after, 10)
		p.ok(err, "due settlements after %d", i+1)
		p.equal(rest, got[i+1:], "what is due after the first %d", i+1)
	}
}

func (p *probe) inFlight(want ...ledger.Submission) {
	got, err := p.store.SubmissionsInFlight(p.ctx, "", 10)
	p.ok(err, "submissions in flight")
	p.equal(got, want, "the submissions in flight")
}

func submissionDue(p *probe) {
	a, b, local := p.onChain("a", 1000), p.onChain("b", 1000), p.channel("ledger", "s", 100)
	p.reads(local, 1, 1, 1, 1) // without a chain it is never due
	first := p.sends(a, 1, 10, 900, 60*time.Second)
	second := p.sends(b, 1, 10, 900, 40*time.Second)
	p.due(0)
	p.due(20*time.Second, second)
	p.due(30*time.Second, second, first)
	p.clock.Advance(20*time.Second - time.Microsecond)
	p.due(0)
	second = p.sends(b, 2, 20, 900, time.Hour) // a replacement does not postpone it
	p.due(0)
	p.clock.Advance(time.Microsecond)
	p.reopen()
	p.due(0, second)
	first = p.sends(a, 2, 20, 900, 8*time.Second) // but one of a shorter life is due earlier
	p.due(0, second)
	p.clock.Advance(4 * time.Second)
	p.due(0, first, second)
	p.clock.Advance(time.Hour)
	p.due(0, first, second) // whether it has expired is for the chain to say
	first = p.sends(a, 3, 30, 900, time.Hour)
	p.due(0, second, first)
	p.due(-2 * time.Hour)
	later := p.sends(p.onChain("closed", 100), 1, 1, 900, 2*time.Hour)
	_, err := p.store.CloseChannel(p.ctx, "closed")
	p.ok(err, "close")
	p.due(0, second, first, later)
	last := p.sends(p.onChain("expires first", 100), 1, 1, 900, 3*channelLife)
	p.due(channelLife/2-time.Microsecond, second, first, later)
	p.due(channelLife/2, second, first, later, last)
	p.audited()
}

func submissionSettleAt(p *probe) {
	c := p.onChain("c", 1000)
	p.sends(c, 1, 49, 50, time.Minute)
	p.due(0)
	s := p.sends(c, 2, 50, 50, time.Minute)
	p.due(0, s)
	sub := p.begins(s)
	p.sends(c, 3, 99, 50, time.Minute) // 50 of it are in flight
	s = p.sends(c, 4, 100, 50, time.Minute)
	p.due(0)
	p.ok(p.store.EndSubmission(p.ctx, "c", 2, p.collected(sub)), "end")
	p.due(0, s)
	sub = p.begins(s)
	s = p.sends(c, 5, 101, 50, time.Minute)
	p.due(time.Hour)
	p.ok(p.store.EndSubmission(p.ctx, "c", 4, ledger.Outcome{State: ledger.Expired}), "end")
	p.due(0, s) // it covers what has expired
	p.must(sub.Amount == 100, "the submission is of %d", sub.Amount)
	p.audited()
}

func submissionOutcomes(p *probe) {
	for sequence, test := range map[int64]struct {
		outcome ledger.Outcome
		settled int64
		stopped string
	}{
		1: {ledger.Outcome{State: ledger.Collected}, 10, ""},
		2: {ledger.Outcome{State: ledger.Failed, Status: "Move abort in 0x1::micropayments"}, 0, "Move abort in 0x1::micropayments"},
		3: {ledger.Outcome{State: ledger.Expired}, 0, "a payment of 10 units has expired before it was collected: renew it, unless a newer one is pending"},
	} {
		id := string(rune('a' + sequence))
		c := p.onChain(id, 100)
		s := p.sends(c, sequence, 10, 1, time.Minute)
		want := submission(s)
		if test.outcome.State == ledger.Collected {
			want.Begun = p.clock.Now()
			test.outcome = p.collected(want)
		}
		p.is(p.store.EndSubmission(p.ctx, id, sequence, test.outcome), database.ErrNotFound, "the end of what has not begun")
		_, err := p.store.Submission(p.ctx, id)
		p.is(err, database.ErrNotFound, "a submission that has not begun")
		for _, wrong := range []ledger.Settlement{
			{Channel: id, Sequence: sequence + 1, Amount: 10}, {Channel: id, Sequence: sequence, Amount: 11}, {Channel: "unknown", Sequence: 1, Amount: 1},
		} {
			p.refused(id, database.ErrNotFound, "a submission of another settlement", func() error { return p.store.BeginSubmission(p.ctx, submission(wrong)) })
		}
		want = p.begins(s)
		p.is(p.store.BeginSubmission(p.ctx, submission(s)), database.ErrExists, "a second submission in flight")
		p.reopen()
		p.inFlight(want)
		got := p.getChannel(id)
		p.must(got.Submitted == 10 && got.Settled == 0 && got.Stopped == "", "in flight: %+v", got)
		p.audited()
		p.is(p.store.EndSubmission(p.ctx, id, sequence+1, test.outcome), database.ErrNotFound, "the end of another one")
		p.clock.Advance(time.Second)
		want.State, want.Status, want.Body, want.Ended = test.outcome.State, test.outcome.Status, nil, p.clock.Now()
		for range 3 {
			p.ok(p.store.EndSubmission(p.ctx, id, sequence, test.outcome), "end")
			sub, err := p.store.Submission(p.ctx, id)
			p.ok(err, "submission")
			if len(sub.Body) == 0 {
				sub.Body = nil
			}
			p.equal(sub, want, "the submission at its end")
			got := p.getChannel(id)
			p.must(got.Submitted == 0 && got.Settled == test.settled && got.Stopped == test.stopped, "at its end: %+v", got)
			p.clock.Advance(time.Second)
			p.reopen()
		}
		for _, other := range []ledger.SubmissionState{ledger.InFlight, ledger.Collected, ledger.Failed, ledger.Expired} {
			if other != test.outcome.State {
				p.must(p.store.EndSubmission(p.ctx, id, sequence, ledger.Outcome{State: other}) != nil, "it ends a second time, differently")
			}
		}
		p.inFlight()
		p.audited()
	}
	failed, err := p.store.FailedSubmissions(p.ctx, 10)
	p.ok(err, "failed submissions")
	p.must(len(failed) == 1 && failed[0].Sequence == 2 && failed[0].Status == "Move abort in 0x1::micropayments", "failed: %+v", failed)
}

// submissionNewer checks that payments which are accepted meanwhile wait, and that nothing that was accepted is
// lost or sold over a channel that has failed.
func submissionNewer(p *probe) {
	c := p.onChain("c", 1000)
	p.begins(p.sends(c, 1, 10, 1, time.Minute))
	newer := p.sends(c, 2, 20, 1, time.Minute)
	p.due(0)
	p.audited()
	p.ok(p.store.EndSubmission(p.ctx, "c", 1, ledger.Outcome{State: ledger.Failed, Status: "abort"}), "end")
	stopped := p.pay(c, 3, 30)
	stopped.SettleAt = 1
	p.refusedPayment("c", stopped, ledger.ErrChannelStopped, "over a channel that has stopped")
	p.due(0, newer)
	sub := p.begins(newer)
	p.must(p.getChannel("c").Stopped == "abort", "the next submission made the channel sell again")
	p.ok(p.store.EndSubmission(p.ctx, "c", 2, p.collected(sub)), "end")
	got := p.getChannel("c")
	p.must(got.Settled == 20 && got.Withdrawn == 20 && got.NextSequence == 3 && got.Stopped == "", "collected: %+v", got)
	p.begins(p.sends(c, 3, 30, 1, time.Minute))
	newer = p.sends(c, 4, 31, 1, time.Minute)
	p.ok(p.store.EndSubmission(p.ctx, "c", 3, ledger.Outcome{State: ledger.Expired}), "end")
	p.audited()
	p.refusedPayment("c", p.pay(c, 5, 40), ledger.ErrChannelStopped, "over a channel with a payment that has expired")
	sub = p.begins(newer) // it includes what has expired
	p.audited()
	p.ok(p.store.EndSubmission(p.ctx, "c", 4, p.collected(sub)), "end")
	p.reads(c, 5, 40, 1, 1)
	p.audited()
}

// submissionGone collects over a channel that was ended on the chain before the collection was seen.
func submissionGone(p *probe) {
	p.begins(p.sends(p.onChain("c", 100), 1, 10, 1, time.Minute))
	gone := ledger.Reading{Gone: true, Withdrawn: 10, ChainTime: p.clock.Now()}
	p.ok(p.store.EndSubmission(p.ctx, "c", 1, ledger.Outcome{State: ledger.Collected, Reading: gone}), "end")
	got := p.getChannel("c")
	p.must(got.Settled == 10 && got.Withdrawn == 10 && got.Deposit == 0 && got.Stopped != "", "collected, and gone: %+v", got)
	p.audited()
}

func submissionRacing(p *probe) {
	handles := []whole.Database{p.store, p.open()}
	c := p.onChain("c", 1_000_000)
	for k := int64(1); k <= 10; k++ {
		s := p.sends(c, k, 10*k, 1, time.Minute)
		if k%3 == 0 {
			p.begins(s)
			newer := p.sends(c, k+1, 10*(k+1), 1, time.Minute)
			for _, err := range race(4, func(i int) error {
				return handles[i%2].EndSubmission(p.ctx, "c", k, ledger.Outcome{State: ledger.Expired})
			}) {
				p.ok(err, "concurrent ends")
			}
			k++
			s = newer
		}
		p.won(race(4, func(i int) error { return handles[i%2].BeginSubmission(p.ctx, submission(s)) }), 1, database.ErrExists)
		outcome := p.collected(submission(s))
		for _, err := range race(4, func(i int) error { return handles[i%2].EndSubmission(p.ctx, "c", k, outcome) }) {
			p.ok(err, "concurrent ends")
		}
	}
	p.must(p.getChannel("c").Settled == 100 && p.getChannel("c").Collected == 100, "%+v", p.getChannel("c"))
	p.audited()
}

// submissionMany reads many submissions in pages.
func submissionMany(p *probe) {
	const n = 25
	for i := range n {
		c := p.onChain(string(rune('a'+i)), 100)
		p.begins(p.sends(c, 1, 10, 1, time.Minute))
	}
	var got []string
	for after := ""; ; {
		page, err := p.store.SubmissionsInFlight(p.ctx, after, 7)
		p.ok(err, "submissions in flight")
		for _, s := range page {
			got = append(got, s.Channel)
			after = s.Channel
		}
		if len(page) < 7 {
			break
		}
	}
	p.must(len(got) == n, "%d submissions in flight, want %d", len(got), n)
}

func submissionHalt(p *probe) {
	reason, err := p.store.Halted(p.ctx)
	p.must(err == nil && reason == "", "halted at the start: %q, %v", reason, err)
	p.is(p.store.Resume(p.ctx), database.ErrNotFound, "resume what has not halted")
	a, b, local := p.onChain("a", 100), p.onChain("b", 100), p.channel("ledger", "s", 100)
	sub := p.begins(p.sends(a, 1, 10, 1, time.Minute))
	waits := p.sends(b, 1, 10, 1, time.Minute)
	outcome := p.collected(sub)
	outcome.Reading.Withdrawn, outcome.Halt = 7, "other amounts"
	p.ok(p.store.EndSubmission(p.ctx, "a", 1, outcome), "end")
	p.must(p.getChannel("a").Settled == 7, "%+v, want no more settled than was withdrawn", p.getChannel("a"))
	p.reopen()
	for _, c := range []ledger.Channel{a, b} {
		pay := p.pay(c, 2, 20)
		pay.SettleAt = 1
		p.refusedPayment(c.ID, pay, ledger.ErrChannelStopped, "while settling has halted")
	}
	p.is(p.store.BeginSubmission(p.ctx, submission(waits)), ledger.ErrChannelStopped, "a submission while settling has halted")
	p.reads(local, 1, 1, 1, 1)
	reason, err = p.store.Halted(p.ctx)
	p.must(err == nil && reason == "other amounts", "halted: %q, %v", reason, err)
	p.ok(p.store.Resume(p.ctx), "resume")
	p.begins(waits)
	p.sends(b, 2, 20, 1, time.Minute)
	p.audited()
}

func submissionUnsettled(p *probe) {
	want := func(waiting, expired, failed ledger.UnsettledSum) {
		u, err := p.store.Unsettled(p.ctx)
		p.ok(err, "unsettled")
		u.Overdue = 0 // see submissionOverdue
		p.equal(u, ledger.Unsettled{Waiting: waiting, Expired: expired, Failed: failed}, "what is not settled")
	}
	none, sum := ledger.UnsettledSum{}, func(channels, amount int64) ledger.UnsettledSum {
		return ledger.UnsettledSum{Channels: channels, Amount: amount}
	}
	want(none, none, none)
	a, b, c := p.onChain("a", 100), p.onChain("b", 100), p.onChain("c", 100)
	sub := p.begins(p.sends(a, 1, 10, 1, time.Minute))
	p.begins(p.sends(b, 1, 20, 1, time.Minute))
	p.sends(c, 1, 30, 1, time.Minute)
	want(sum(3, 60), none, none)
	p.sends(b, 2, 25, 1, time.Minute)
	p.clock.Advance(2 * time.Minute)
	want(sum(2, 35), sum(1, 30), none) // one in flight waits until the chain says that it has expired
	p.ok(p.store.EndSubmission(p.ctx, "a", 1, p.collected(sub)), "end")
	p.ok(p.store.EndSubmission(p.ctx, "b", 1, ledger.Outcome{State: ledger.Failed, Status: "abort"}), "end")
	want(none, sum(1, 30), sum(1, 25))
	p.begins(p.sends(c, 2, 31, 1, time.Minute))
	want(sum(1, 31), none, sum(1, 25))
	p.ok(p.store.EndSubmission(p.ctx, "c", 2, ledger.Outcome{State: ledger.Expired}), "end")
	want(none, sum(1, 31), sum(1, 25))
	p.audited()
}

func submissionOverdue(p *probe) {
	want := func(overdue time.Duration, what string) {
		u, err := p.store.Unsettled(p.ctx)
		p.ok(err, "unsettled")
		p.equal(u.Overdue, overdue, "how long a payment is overdue when %s", what)
	}
	want(0, "nothing waits")
	local := p.channel("ledger", "s", 100)
	p.reads(local, 1, 1, 1, 1)
	a, b := p.onChain("a", 1000), p.onChain("b", 1000)
	p.sends(a, 1, 10, 900, 2*time.Hour)
	p.clock.Advance(time.Hour)
	want(0, "the payment is due now")
	p.clock.Advance(time.Minute)
	want(time.Minute, "the payment is due")
	first := p.sends(a, 2, 20, 900, 2*time.Hour)
	second := p.sends(b, 1, 10, 1, time.Minute)
	want(time.Minute, "a newer payment does not postpone it")
	sub := p.begins(first)
	want(0, "the submission has begun")
	p.clock.Advance(2 * time.Minute)
	want(2*time.Minute, "one is in flight, and another has expired")
	p.reopen()
	p.ok(p.store.EndSubmission(p.ctx, "a", 2, p.collected(sub)), "end")
	want(2*time.Minute, "a pending payment has expired")
	p.begins(second)
	want(0, "the submission of the expired payment has begun")
	p.clock.Advance(time.Minute)
	want(time.Minute, "the expired payment is in flight")
	p.ok(p.store.EndSubmission(p.ctx, "b", 1, ledger.Outcome{State: ledger.Expired}), "end")
	want(0, "nothing waits any more")
	p.audited()
}

// channelOnChain opens a channel that has been used on the chain before.
func channelOnChain(p *probe) {
	open := ledger.Channel{
		ID: "c", PaymentChannelID: 1, Sender: "s", Receiver: "receiver", Asset: "asset", Deposit: 100, Expires: p.clock.Now().Add(channelLife),
		Withdrawn: 40, NextSequence: 5, ChainTime: p.clock.Now(),
	}
	c, err := p.store.OpenChannel(p.ctx, open, nil)
	p.ok(err, "open")
	want := open
	want.Accepted, want.Settled, want.Sequence, want.Created, want.Read = 40, 40, 4, p.clock.Now(), p.clock.Now()
	p.equal(c, want, "the channel")
	p.reopen()
	p.equal(p.getChannel("c"), want, "the channel again")
	p.audited()
	p.refusedPayment("c", p.pay(c, 4, 50), &ledger.StaleError{}, "with a sequence number that the chain refuses")
	p.refusedPayment("c", p.pay(c, 5, 40), &ledger.StaleError{}, "with an amount that was withdrawn")
	p.refusedPayment("c", p.pay(c, 5, 101), &ledger.InsufficientFundsError{Required: 101, Available: 100}, "of more than the deposit")
	got := p.reads(c, 5, 50, 2, 5)
	p.must(got.Accepted == 50 && got.Credit == 0 && got.Settled == 40, "after a payment: %+v", got)
	p.audited()
}

func channelReadings(p *probe) {
	c := p.onChain("c", 100)
	p.reads(c, 1, 10, 1, 10)
	pay := p.pay(c, 2, 11)
	pay.MaxAge = 30 * time.Second
	p.clock.Advance(30*time.Second + time.Microsecond)
	pay.Expires = p.clock.Now().Add(time.Minute)
	p.refusedPayment("c", pay, ledger.ErrOutdated, "after a reading that is too old")
	record := func(what string, change func(*ledger.Reading), deposit int64, state ledger.ChannelState) {
		p.clock.Advance(time.Second)
		r := p.reading(p.getChannel("c"))
		change(&r)
		got, err := p.store.RecordReading(p.ctx, "c", r)
		p.ok(err, "record")
		now := p.clock.Now()
		p.must(got.Deposit == deposit && got.State(now) == state && (state == ledger.ChannelStopped) == (got.Stopped != "") && got.Read.Equal(now),
			"%s: %+v, want %s with %d", what, got, state, deposit)
		p.equal(p.getChannel("c"), got, "the channel after it")
		p.audited()
	}
	record("nothing has changed", func(*ledger.Reading) {}, 100, ledger.ChannelOpen)
	p.reads(c, 2, 11, 1, 1)
	record("a deposit", func(r *ledger.Reading) { r.Deposit = 120 }, 120, ledger.ChannelOpen)
	record("it has shrunk", func(r *ledger.Reading) { r.Deposit = 119 }, 119, ledger.ChannelStopped)
	p.refusedPayment("c", p.pay(c, 3, 12), ledger.ErrChannelStopped, "over a channel that has shrunk")
	record("nothing has changed since", func(*ledger.Reading) {}, 119, ledger.ChannelStopped)
	record("a deposit", func(r *ledger.Reading) { r.Deposit = 120 }, 120, ledger.ChannelOpen)
	record("it has shrunk below what is accepted", func(r *ledger.Reading) { r.Deposit = 5 }, 5, ledger.ChannelStopped)
	record("it is gone", func(r *ledger.Reading) { *r = ledger.Reading{Gone: true, ChainTime: r.ChainTime} }, 0, ledger.ChannelStopped)
	p.refusedPayment("c", p.pay(c, 3, 12), ledger.ErrChannelStopped, "over a channel that is gone")
	record("it is back", func(r *ledger.Reading) { r.Deposit = 120 }, 120, ledger.ChannelOpen)
	p.reads(c, 3, 12, 1, 1)
	record("others have withdrawn", func(r *ledger.Reading) { r.Withdrawn = 13 }, 120, ledger.ChannelOpen)
	expires := p.clock.Now().Add(2 * time.Second)
	record("it expires, with a deposit", func(r *ledger.Reading) { r.Deposit, r.Expires = 130, expires }, 130, ledger.ChannelOpen)

	before := p.getChannel("c")
	old := p.reading(before)
	old.Gone, old.ChainTime = true, before.ChainTime.Add(-time.Microsecond)
	got, err := p.store.RecordReading(p.ctx, "c", old)
	p.ok(err, "record")
	p.equal(got, before, "the channel after a reading of an older ledger")
	p.clock.Advance(time.Second)
	got = p.getChannel("c")
	p.must(got.State(p.clock.Now()) == ledger.ChannelExpired, "the expiry was not recorded")
	_, err = p.store.RecordReading(p.ctx, "unknown", old)
	p.is(err, database.ErrNotFound, "a reading of an unknown channel")
}
