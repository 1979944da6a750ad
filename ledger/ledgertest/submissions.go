package ledgertest

import (
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/ledger"
)

var submissionChecks = []dbtest.Check{
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

// onChain opens a channel that was read from the chain, with nothing withdrawn yet.
func (p *probe) onChain(id string, deposit int64) ledger.Channel {
	c := dbtest.Value(p.Store.OpenChannel(p.Ctx, ledger.Channel{
		ID: id, PaymentChannelID: p.Next(), Sender: "s", Receiver: "receiver", Asset: "asset",
		Deposit: deposit, Expires: p.Clock.Now().Add(dbtest.ChannelLife), NextSequence: 1, ChainTime: p.Clock.Now(), ChainCreated: p.Clock.Now().Add(-time.Hour),
	}, nil))
	return c
}

// reading returns a fullnode's reading of c now, if nothing has changed.
func (p *probe) reading(c ledger.Channel) ledger.Reading {
	return ledger.Reading{
		Deposit: c.Deposit, Withdrawn: c.Withdrawn, NextSequence: c.NextSequence, Expires: c.Expires, Created: c.ChainCreated, ChainTime: p.Clock.Now(),
	}
}

// sends accepts a payment that expires after life. It is due as soon as settleAt or more is
// unsettled.
func (p *probe) sends(c ledger.Channel, sequence, amount, settleAt int64, life time.Duration) ledger.Settlement {
	pay := p.pay(c, sequence, amount)
	pay.Expires, pay.SettleAt = p.Clock.Now().Add(life), settleAt
	dbtest.Value(p.Store.PayRead(p.Ctx, ledger.ReadPurchase{Offer: pay, Price: 1, Count: 1}))
	return settlement(pay, c.ID)
}

func submission(s ledger.Settlement) ledger.Submission {
	return ledger.Submission{
		Channel: s.Channel, Sequence: s.Sequence, Amount: s.Amount, Expires: s.Expires,
		Hash: [32]byte{byte(s.Sequence), 0xff}, Body: append([]byte{0}, s.Proof...),
	}
}

// begins begins a settlement's submission.
func (p *probe) begins(s ledger.Settlement) ledger.Submission {
	sub := submission(s)
	p.OK(p.Store.BeginSubmission(p.Ctx, sub), "begin the submission of %d", s.Sequence)
	sub.Begun = p.Clock.Now()
	return sub
}

// collected is the outcome of a submission that has collected its settlement.
func (p *probe) collected(s ledger.Submission) ledger.Outcome {
	r := p.reading(p.getChannel(s.Channel))
	r.Withdrawn, r.NextSequence = s.Amount, s.Sequence+1
	return ledger.Outcome{State: ledger.Collected, Reading: r}
}

func (p *probe) due(ahead time.Duration, want ...ledger.Settlement) {
	got := dbtest.Value(p.Store.DueSettlements(p.Ctx, ahead, ledger.Settlement{}, 10))
	p.Equal(got, want, "settlements due %s ahead", ahead)
	for i, after := range got {
		rest, err := p.Store.DueSettlements(p.Ctx, ahead, after, 10)
		p.OK(err, "due settlements after %d", i+1)
		p.Equal(rest, got[i+1:], "settlements due after the first %d", i+1)
	}
}

func (p *probe) inFlight(want ...ledger.Submission) {
	p.Equal(dbtest.Value(p.Store.SubmissionsInFlight(p.Ctx, "", 10)), want, "the submissions in flight")
}

func submissionDue(p *probe) {
	a, b, local := p.onChain("a", 1000), p.onChain("b", 1000), p.Channel("ledger", "s", 100)
	p.reads(local, 1, 1, 1, 1) // without a chain it is never due
	first := p.sends(a, 1, 10, 900, 60*time.Second)
	second := p.sends(b, 1, 10, 900, 40*time.Second)
	p.due(0)
	p.due(20*time.Second, second)
	p.due(30*time.Second, second, first)
	p.Clock.Advance(20*time.Second - time.Microsecond)
	p.due(0)
	second = p.sends(b, 2, 20, 900, time.Hour) // a replacement does not postpone it
	p.due(0)
	p.Clock.Advance(time.Microsecond)
	p.Reopen()
	p.due(0, second)
	first = p.sends(a, 2, 20, 900, 8*time.Second) // but one with a shorter life is due earlier
	p.due(0, second)
	p.Clock.Advance(4 * time.Second)
	p.due(0, first, second)
	p.Clock.Advance(time.Hour)
	p.due(0, first, second) // whether it has expired is for the chain to decide
	first = p.sends(a, 3, 30, 900, time.Hour)
	p.due(0, second, first)
	p.due(-2 * time.Hour)
	later := p.sends(p.onChain("closed", 100), 1, 1, 900, 2*time.Hour)
	dbtest.Value(p.Store.CloseChannel(p.Ctx, "closed"))
	p.due(0, second, first, later)
	last := p.sends(p.onChain("expires first", 100), 1, 1, 900, 3*dbtest.ChannelLife)
	p.due(dbtest.ChannelLife/2-time.Microsecond, second, first, later)
	p.due(dbtest.ChannelLife/2, second, first, later, last)
	p.Audited()
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
	p.OK(p.Store.EndSubmission(p.Ctx, "c", 2, p.collected(sub)), "end")
	p.due(0, s)
	sub = p.begins(s)
	s = p.sends(c, 5, 101, 50, time.Minute)
	p.due(time.Hour)
	p.OK(p.Store.EndSubmission(p.Ctx, "c", 4, ledger.Outcome{State: ledger.Expired}), "end")
	p.due(0, s) // it covers the expired one
	p.Must(sub.Amount == 100, "the submission is of %d", sub.Amount)
	p.Audited()
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
			want.Begun = p.Clock.Now()
			test.outcome = p.collected(want)
		}
		p.Is(p.Store.EndSubmission(p.Ctx, id, sequence, test.outcome), database.ErrNotFound, "the end of a submission that has not begun")
		p.Is(dbtest.Error(p.Store.Submission(p.Ctx, id)), database.ErrNotFound, "a submission that has not begun")
		for _, wrong := range []ledger.Settlement{
			{Channel: id, Sequence: sequence + 1, Amount: 10}, {Channel: id, Sequence: sequence, Amount: 11}, {Channel: "unknown", Sequence: 1, Amount: 1},
		} {
			p.refused(id, database.ErrNotFound, "a submission of another settlement", func() error { return p.Store.BeginSubmission(p.Ctx, submission(wrong)) })
		}
		want = p.begins(s)
		p.Is(p.Store.BeginSubmission(p.Ctx, submission(s)), database.ErrExists, "a second submission in flight")
		p.Reopen()
		p.inFlight(want)
		got := p.getChannel(id)
		p.Must(got.Submitted == 10 && got.Settled == 0 && got.Stopped == "", "in flight: %+v", got)
		p.Audited()
		p.Is(p.Store.EndSubmission(p.Ctx, id, sequence+1, test.outcome), database.ErrNotFound, "the end of another submission")
		p.Clock.Advance(time.Second)
		want.State, want.Status, want.Body, want.Ended = test.outcome.State, test.outcome.Status, nil, p.Clock.Now()
		for range 3 {
			p.OK(p.Store.EndSubmission(p.Ctx, id, sequence, test.outcome), "end")
			sub := dbtest.Value(p.Store.Submission(p.Ctx, id))
			if len(sub.Body) == 0 {
				sub.Body = nil
			}
			p.Equal(sub, want, "the submission at its end")
			got := p.getChannel(id)
			p.Must(got.Submitted == 0 && got.Settled == test.settled && got.Stopped == test.stopped, "at its end: %+v", got)
			p.Clock.Advance(time.Second)
			p.Reopen()
		}
		for _, other := range []ledger.SubmissionState{ledger.InFlight, ledger.Collected, ledger.Failed, ledger.Expired} {
			if other != test.outcome.State {
				p.Must(p.Store.EndSubmission(p.Ctx, id, sequence, ledger.Outcome{State: other}) != nil, "it ends a second time, differently")
			}
		}
		p.inFlight()
		p.Audited()
	}
	failed := dbtest.Value(p.Store.FailedSubmissions(p.Ctx, 10))
	p.Must(len(failed) == 1 && failed[0].Sequence == 2 && failed[0].Status == "Move abort in 0x1::micropayments", "failed: %+v", failed)
}

// submissionNewer checks that payments which are accepted meanwhile wait, and that nothing that was
// accepted is lost or sold over a channel that has failed.
func submissionNewer(p *probe) {
	c := p.onChain("c", 1000)
	p.begins(p.sends(c, 1, 10, 1, time.Minute))
	newer := p.sends(c, 2, 20, 1, time.Minute)
	p.due(0)
	p.Audited()
	p.OK(p.Store.EndSubmission(p.Ctx, "c", 1, ledger.Outcome{State: ledger.Failed, Status: "abort"}), "end")
	stopped := p.pay(c, 3, 30)
	stopped.SettleAt = 1
	p.refusedPayment("c", stopped, ledger.ErrChannelStopped, "over a channel that has stopped")
	p.due(0, newer)
	sub := p.begins(newer)
	p.Must(p.getChannel("c").Stopped == "abort", "the next submission made the channel sell again")
	p.OK(p.Store.EndSubmission(p.Ctx, "c", 2, p.collected(sub)), "end")
	got := p.getChannel("c")
	p.Must(got.Settled == 20 && got.Withdrawn == 20 && got.NextSequence == 3 && got.Stopped == "", "collected: %+v", got)
	p.begins(p.sends(c, 3, 30, 1, time.Minute))
	newer = p.sends(c, 4, 31, 1, time.Minute)
	p.OK(p.Store.EndSubmission(p.Ctx, "c", 3, ledger.Outcome{State: ledger.Expired}), "end")
	p.Audited()
	p.refusedPayment("c", p.pay(c, 5, 40), ledger.ErrChannelStopped, "over a channel with a payment that has expired")
	sub = p.begins(newer) // it includes the expired amount
	p.Audited()
	p.OK(p.Store.EndSubmission(p.Ctx, "c", 4, p.collected(sub)), "end")
	p.reads(c, 5, 40, 1, 1)
	p.Audited()
}

// submissionGone collects over a channel that the chain ended before anyone read it after the
// collection.
func submissionGone(p *probe) {
	p.begins(p.sends(p.onChain("c", 100), 1, 10, 1, time.Minute))
	gone := ledger.Reading{Gone: true, Withdrawn: 10, ChainTime: p.Clock.Now()}
	p.OK(p.Store.EndSubmission(p.Ctx, "c", 1, ledger.Outcome{State: ledger.Collected, Reading: gone}), "end")
	got := p.getChannel("c")
	p.Must(got.Settled == 10 && got.Withdrawn == 10 && got.Deposit == 0 && got.Stopped != "", "collected, and gone: %+v", got)
	p.Audited()
}

func submissionRacing(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	c := p.onChain("c", 1_000_000)
	for k := int64(1); k <= 10; k++ {
		s := p.sends(c, k, 10*k, 1, time.Minute)
		if k%3 == 0 {
			p.begins(s)
			newer := p.sends(c, k+1, 10*(k+1), 1, time.Minute)
			for _, err := range dbtest.Race(4, func(i int) error {
				return handles[i%2].EndSubmission(p.Ctx, "c", k, ledger.Outcome{State: ledger.Expired})
			}) {
				p.OK(err, "concurrent ends")
			}
			k++
			s = newer
		}
		p.Won(dbtest.Race(4, func(i int) error { return handles[i%2].BeginSubmission(p.Ctx, submission(s)) }), 1, database.ErrExists)
		outcome := p.collected(submission(s))
		for _, err := range dbtest.Race(4, func(i int) error { return handles[i%2].EndSubmission(p.Ctx, "c", k, outcome) }) {
			p.OK(err, "concurrent ends")
		}
	}
	p.Must(p.getChannel("c").Settled == 100 && p.getChannel("c").Collected == 100, "%+v", p.getChannel("c"))
	p.Audited()
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
		page := dbtest.Value(p.Store.SubmissionsInFlight(p.Ctx, after, 7))
		for _, s := range page {
			got = append(got, s.Channel)
			after = s.Channel
		}
		if len(page) < 7 {
			break
		}
	}
	p.Must(len(got) == n, "%d submissions in flight, want %d", len(got), n)
}

func submissionHalt(p *probe) {
	reason, err := p.Store.Halted(p.Ctx)
	p.Must(err == nil && reason == "", "halted at the start: %q, %v", reason, err)
	p.Is(p.Store.Resume(p.Ctx, ""), database.ErrNotFound, "resume what has not halted")
	a, b, local := p.onChain("a", 100), p.onChain("b", 100), p.Channel("ledger", "s", 100)
	sub := p.begins(p.sends(a, 1, 10, 1, time.Minute))
	waits := p.sends(b, 1, 10, 1, time.Minute)
	outcome := p.collected(sub)
	outcome.Reading.Withdrawn, outcome.Halt = 7, "other amounts"
	p.OK(p.Store.EndSubmission(p.Ctx, "a", 1, outcome), "end")
	p.Must(p.getChannel("a").Settled == 7, "%+v, want no more settled than was withdrawn", p.getChannel("a"))
	p.Reopen()
	for _, c := range []ledger.Channel{a, b} {
		pay := p.pay(c, 2, 20)
		pay.SettleAt = 1
		p.refusedPayment(c.ID, pay, ledger.ErrChannelStopped, "while settling has halted")
	}
	p.Is(p.Store.BeginSubmission(p.Ctx, submission(waits)), ledger.ErrChannelStopped, "a submission while settling has halted")
	p.reads(local, 1, 1, 1, 1)
	reason, err = p.Store.Halted(p.Ctx)
	p.Must(err == nil && reason == "other amounts", "halted: %q, %v", reason, err)
	p.Is(p.Store.Resume(p.Ctx, "an earlier reason"), database.ErrNotFound, "resume after another halt")
	p.OK(p.Store.Resume(p.Ctx, reason), "resume")
	p.begins(waits)
	p.sends(b, 2, 20, 1, time.Minute)
	p.Audited()
}

func submissionUnsettled(p *probe) {
	want := func(waiting, expired, failed ledger.UnsettledSum) {
		u := dbtest.Value(p.Store.Unsettled(p.Ctx))
		u.Overdue = 0 // see submissionOverdue
		p.Equal(u, ledger.Unsettled{Waiting: waiting, Expired: expired, Failed: failed}, "the unsettled amounts")
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
	p.Clock.Advance(2 * time.Minute)
	want(sum(2, 35), sum(1, 30), none) // one in flight waits until the chain shows that it has expired
	p.OK(p.Store.EndSubmission(p.Ctx, "a", 1, p.collected(sub)), "end")
	p.OK(p.Store.EndSubmission(p.Ctx, "b", 1, ledger.Outcome{State: ledger.Failed, Status: "abort"}), "end")
	want(none, sum(1, 30), sum(1, 25))
	p.begins(p.sends(c, 2, 31, 1, time.Minute))
	want(sum(1, 31), none, sum(1, 25))
	p.OK(p.Store.EndSubmission(p.Ctx, "c", 2, ledger.Outcome{State: ledger.Expired}), "end")
	want(none, sum(1, 31), sum(1, 25))
	p.Audited()
}

func submissionOverdue(p *probe) {
	want := func(overdue time.Duration, label string) {
		u := dbtest.Value(p.Store.Unsettled(p.Ctx))
		p.Equal(u.Overdue, overdue, "how long a payment is overdue when %s", label)
	}
	want(0, "nothing waits")
	local := p.Channel("ledger", "s", 100)
	p.reads(local, 1, 1, 1, 1)
	a, b := p.onChain("a", 1000), p.onChain("b", 1000)
	p.sends(a, 1, 10, 900, 2*time.Hour)
	p.Clock.Advance(time.Hour)
	want(0, "the payment is due now")
	p.Clock.Advance(time.Minute)
	want(time.Minute, "the payment is due")
	first := p.sends(a, 2, 20, 900, 2*time.Hour)
	second := p.sends(b, 1, 10, 1, time.Minute)
	want(time.Minute, "a newer payment does not postpone it")
	sub := p.begins(first)
	want(0, "the submission has begun")
	p.Clock.Advance(2 * time.Minute)
	want(2*time.Minute, "one is in flight, and another has expired")
	p.Reopen()
	p.OK(p.Store.EndSubmission(p.Ctx, "a", 2, p.collected(sub)), "end")
	want(2*time.Minute, "a pending payment has expired")
	p.begins(second)
	want(0, "the submission of the expired payment has begun")
	p.Clock.Advance(time.Minute)
	want(time.Minute, "the expired payment is in flight")
	p.OK(p.Store.EndSubmission(p.Ctx, "b", 1, ledger.Outcome{State: ledger.Expired}), "end")
	want(0, "nothing waits any more")
	p.Audited()
}

// channelOnChain opens a channel that has been used on the chain before.
func channelOnChain(p *probe) {
	open := ledger.Channel{
		ID: "c", PaymentChannelID: 1, Sender: "s", Receiver: "receiver", Asset: "asset", Deposit: 100, Expires: p.Clock.Now().Add(dbtest.ChannelLife),
		Withdrawn: 40, NextSequence: 5, ChainTime: p.Clock.Now(),
	}
	c := dbtest.Value(p.Store.OpenChannel(p.Ctx, open, nil))
	want := open
	want.Settled, want.Sequence, want.Created, want.Read = 40, 4, p.Clock.Now(), p.Clock.Now()
	p.Equal(c, want, "the channel")
	p.Reopen()
	p.Equal(p.getChannel("c"), want, "the channel again")
	p.Audited()
	p.refusedPayment("c", p.pay(c, 4, 50), &ledger.StaleError{}, "with a sequence number that the chain refuses")
	p.refusedPayment("c", p.pay(c, 5, 40), &ledger.StaleError{}, "with an amount that was withdrawn")
	p.refusedPayment("c", p.pay(c, 5, 101), &ledger.InsufficientFundsError{Required: 101, Available: 100}, "of more than the deposit")
	got := p.reads(c, 5, 50, 2, 5)
	p.Must(got.Accepted == 50 && got.Credit == 0 && got.Settled == 40, "after a payment: %+v", got)
	p.Audited()
}

func channelReadings(p *probe) {
	c := p.onChain("c", 100)
	p.reads(c, 1, 10, 1, 10)
	pay := p.pay(c, 2, 11)
	pay.MaxAge = 30 * time.Second
	p.Clock.Advance(30*time.Second + time.Microsecond)
	pay.Expires = p.Clock.Now().Add(time.Minute)
	p.refusedPayment("c", pay, ledger.ErrOutdated, "after a reading that is too old")
	record := func(label string, change func(*ledger.Reading), deposit int64, state ledger.ChannelState) {
		p.Clock.Advance(time.Second)
		r := p.reading(p.getChannel("c"))
		change(&r)
		got := dbtest.Value(p.Store.RecordReading(p.Ctx, "c", r))
		now := p.Clock.Now()
		p.Must(got.Deposit == deposit && got.State(now) == state && (state == ledger.ChannelStopped) == (got.Stopped != "") && got.Read.Equal(now),
			"%s: %+v, want %s with %d", label, got, state, deposit)
		p.Equal(p.getChannel("c"), got, "the channel after it")
		p.Audited()
	}
	record("nothing has changed", func(*ledger.Reading) {}, 100, ledger.ChannelOpen)
	p.reads(c, 2, 11, 1, 1)
	record("a deposit", func(r *ledger.Reading) { r.Deposit = 120 }, 120, ledger.ChannelOpen)
	record("it has shrunk", func(r *ledger.Reading) { r.Deposit = 119 }, 119, ledger.ChannelStopped)
	p.refusedPayment("c", p.pay(c, 3, 12), ledger.ErrChannelStopped, "over a channel that has shrunk")
	record("nothing has changed since", func(*ledger.Reading) {}, 119, ledger.ChannelStopped)
	record("a deposit", func(r *ledger.Reading) { r.Deposit = 120 }, 120, ledger.ChannelOpen)
	record("it has shrunk below the accepted amount", func(r *ledger.Reading) { r.Deposit = 5 }, 5, ledger.ChannelStopped)
	record("it is gone", func(r *ledger.Reading) { *r = ledger.Reading{Gone: true, ChainTime: r.ChainTime} }, 0, ledger.ChannelStopped)
	p.refusedPayment("c", p.pay(c, 3, 12), ledger.ErrChannelStopped, "over a channel that is gone")
	record("it is back", func(r *ledger.Reading) { r.Deposit = 120 }, 120, ledger.ChannelOpen)
	p.reads(c, 3, 12, 1, 1)
	record("third parties have withdrawn", func(r *ledger.Reading) { r.Withdrawn = 13 }, 120, ledger.ChannelOpen)
	expires := p.Clock.Now().Add(2 * time.Second)
	record("it expires, with a deposit", func(r *ledger.Reading) { r.Deposit, r.Expires = 130, expires }, 130, ledger.ChannelOpen)

	before := p.getChannel("c")
	old := p.reading(before)
	old.Gone, old.ChainTime = true, before.ChainTime.Add(-time.Microsecond)
	got := dbtest.Value(p.Store.RecordReading(p.Ctx, "c", old))
	p.Equal(got, before, "the channel after a reading of an older version of the chain")
	p.Clock.Advance(time.Second)
	got = p.getChannel("c")
	p.Must(got.State(p.Clock.Now()) == ledger.ChannelExpired, "the expiry was not recorded")
	p.Is(dbtest.Error(p.Store.RecordReading(p.Ctx, "unknown", old)), database.ErrNotFound, "a reading of an unknown channel")
}

func submissionPostpone(p *probe) {
	c := p.onChain("c", 1000)
	postpone := func(sequence int64, d time.Duration) {
		p.OK(p.Store.Postpone(p.Ctx, "c", sequence, p.Clock.Now().Add(d)), "postpone")
	}
	s := p.sends(c, 1, 10, 1, time.Hour)
	p.due(0, s)
	postpone(2, time.Minute)
	p.due(0, s)
	postpone(1, time.Minute)
	p.Reopen()
	p.due(time.Minute - time.Microsecond)
	p.due(time.Minute, s)
	p.Equal(p.getChannel("c").Accepted, int64(10), "the accepted amount")
	s = p.sends(c, 2, 11, 1000, time.Hour) // a replacement does not postpone it
	p.due(time.Minute - time.Microsecond)
	p.due(time.Minute, s)
	s = p.sends(c, 3, 20, 1, time.Hour) // but one that is due earlier is due earlier
	p.due(0, s)
	local := p.Channel("ledger", "s", 100)
	p.reads(local, 1, 1, 1, 1)
	p.OK(p.Store.Postpone(p.Ctx, "ledger", 1, p.Clock.Now()), "postpone a settlement that is never due")
	p.OK(p.Store.Postpone(p.Ctx, "unknown", 1, p.Clock.Now()), "postpone nothing")
	p.due(time.Hour, s)
	p.Audited()
}

// submissionWithin checks when settlements are due of payments that live long.
func submissionWithin(p *probe) {
	lives := func(id string, amount int64, change func(*ledger.Offer)) ledger.Settlement {
		c := p.onChain(id, 1000)
		pay := p.pay(c, 1, amount)
		pay.Expires, pay.SettleAt, pay.SettleWithin = p.Clock.Now().Add(365*24*time.Hour), 1000, 24*time.Hour
		change(&pay)
		dbtest.Value(p.Store.PayRead(p.Ctx, ledger.ReadPurchase{Offer: pay, Price: 1, Count: 1}))
		return settlement(pay, id)
	}
	short := lives("short", 1, func(p *ledger.Offer) { p.Expires = p.Expires.Add(-364 * 24 * time.Hour) })
	day := lives("day", 1, func(*ledger.Offer) {})
	half := lives("half", 1, func(p *ledger.Offer) { p.SettleWithin = 0 })
	p.due(12*time.Hour - time.Microsecond)
	p.due(12*time.Hour, short)
	p.due(24*time.Hour-time.Microsecond, short)
	p.due(24*time.Hour, short, day)
	p.due(dbtest.ChannelLife/2-time.Microsecond, short, day)
	p.due(dbtest.ChannelLife/2, short, day, half) // half the time until the channel expires
	limited := func(p *ledger.Offer) { p.StartingLimit, p.UnsettledLimit = 100, 1000 }
	lives("below", 49, limited)
	p.due(0)
	at := lives("at half of the limit", 50, limited)
	p.due(0, at)
	one := lives("one", 1, func(p *ledger.Offer) { p.StartingLimit, p.UnsettledLimit = 1, 1 })
	p.due(0, at, one)
	p.Audited()
}
