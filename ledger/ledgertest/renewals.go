package ledgertest

import (
	"errors"
	"math"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/ledger"
)

var renewalChecks = []dbtest.Check{
	check("submissions/stop", submissionStop),
	check("submissions/stop-selling", submissionStopSelling),
	check("submissions/racing-stops", submissionRacingStops),
	check("submissions/grown-deposit", submissionGrownDeposit),
	check("submissions/postpone", submissionPostpone),
	check("submissions/within", submissionWithin),
	check("submissions/form", submissionForm),
	check("payments/selling-limit", paymentSellingLimit),
	check("payments/renew", paymentRenew),
	check("payments/racing-renewals", paymentRacingRenewals),
	check("submissions/renew", submissionRenew),
	check("submissions/racing-renewals", submissionRacingRenewals),
}

// renews renews a channel's expired payment.
func (p *probe) renews(pay ledger.Offer) ledger.Channel {
	c, err := p.Store.Renew(p.Ctx, pay)
	p.OK(err, "renew %d at sequence %d", pay.Amount, pay.Sequence)
	p.Equal(p.recorded(c.ID), c, "the renewed channel")
	p.Audited()
	return c
}

// refusedRenewal checks that a renewal is refused and has no effect.
func (p *probe) refusedRenewal(channel string, pay ledger.Offer, want error, label string) {
	p.refused(channel, want, "a renewal "+label, func() error { return dbtest.Error(p.Store.Renew(p.Ctx, pay)) })
}

// paymentRenew renews payments over a channel without a chain.
func paymentRenew(p *probe) {
	c := p.Channel("c", "s", 1000)
	limited := func(sequence, amount int64) ledger.Offer {
		pay := p.pay(c, sequence, amount)
		pay.UnsettledLimit = 100
		return pay
	}
	p.refusedRenewal("c", limited(1, 0), ledger.ErrNothingExpired, "with no amount, before the first payment")
	p.refusedRenewal("c", limited(1, 1), &ledger.StaleError{}, "before the first payment")
	p.buys(c, 1, 60, 7, "session") // with a credit of 4
	p.reads(c, 2, 100, 1, 10)
	stored := &ledger.StaleError{Stored: p.pay(c, 2, 100).Proof}
	p.refusedPayment("c", limited(3, 101), &ledger.UnsettledLimitError{Limit: 100, Unsettled: 100}, "above the limit")
	p.refusedRenewal("c", limited(3, 100), ledger.ErrNothingExpired, "before the expiry")
	p.Clock.Advance(paymentLife - time.Microsecond)
	p.refusedRenewal("c", limited(3, 100), ledger.ErrNothingExpired, "just before the expiry")
	p.Clock.Advance(time.Microsecond)
	p.Must(p.getChannel("c").Expired == 100, "%d have expired, want 100", p.getChannel("c").Expired)
	p.refusedPayment("c", limited(3, 101), &ledger.UnsettledLimitError{Limit: 100, Unsettled: 100, Expired: 100}, "above the limit, after the expiry")
	p.refusedPayment("c", limited(3, 100), stored, "with the amount of a renewal")
	p.refusedRenewal("c", limited(1, 100), stored, "without a higher sequence")
	expired := dbtest.Value(p.Store.Renew(p.Ctx, limited(2, 100)))
	p.Equal(expired, p.getChannel("c"), "the channel, which is not renewed")
	p.refusedRenewal("c", limited(3, 99), stored, "with a lower amount")
	p.refusedRenewal("c", limited(3, 101), stored, "with a higher amount")
	other := limited(3, 100)
	other.PaymentChannelID++
	p.refusedRenewal("c", other, ledger.ErrNoChannel, "over an unknown channel")
	other = limited(3, 100)
	other.Proof = nil
	p.refusedRenewal("c", other, dbtest.ErrAny, "without a proof")

	renewal := limited(3, 100)
	before := p.recorded("c")
	before.Sequence, before.Proof = 3, renewal.Proof
	for range 3 {
		p.Equal(p.renews(renewal), before, "the renewed channel")
		p.Equal(p.pendingOf("c"), []ledger.Settlement{settlement(renewal, "c")}, "the pending settlement")
		p.Reopen()
	}
	p.refusedRenewal("c", limited(4, 100), ledger.ErrNothingExpired, "of a renewal that has not expired")
	p.refusedPayment("c", limited(4, 101), &ledger.UnsettledLimitError{Limit: 100, Unsettled: 100}, "above the limit, after a renewal")
	p.Clock.Advance(paymentLife)
	dbtest.Value(p.Store.CloseChannel(p.Ctx, "c"))
	p.renews(limited(4, 100)) // over a closed channel
	p.Clock.Advance(paymentLife)
	list := dbtest.Value(p.Store.Settlements(p.Ctx, ledger.Settlement{}, 10))
	p.OK(p.Store.Book(p.Ctx, list), "book an expired payment")
	p.Must(p.getChannel("c").Settled == 100 && p.getChannel("c").Expired == 0, "booked: %+v", p.getChannel("c"))
	p.refusedRenewal("c", limited(5, 100), ledger.ErrNothingExpired, "of a settled payment")

	d := p.Channel("d", "s", 100)
	p.reads(d, 1, 10, 1, 1)
	p.Clock.Advance(paymentLife)
	list = dbtest.Value(p.Store.Settlements(p.Ctx, ledger.Settlement{}, 10))
	p.renews(p.pay(d, 2, 10))
	p.OK(p.Store.Book(p.Ctx, list), "book a payment that was renewed meanwhile")
	p.OK(p.book("d", 2, 10), "book its renewal, which another instance has read before")
	p.Must(p.getChannel("d").Settled == 10 && len(p.pendingOf("d")) == 0, "booked: %+v", p.getChannel("d"))
	p.Audited()
	p.Clock.Advance(dbtest.ChannelLife)
	p.refusedRenewal("d", p.pay(d, 3, 10), ledger.ErrChannelExpired, "over an expired channel")
}

// paymentRacingRenewals renews a payment concurrently, and pays it out.
func paymentRacingRenewals(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	c := p.Channel("c", "s", 1000)
	for k := int64(1); k <= 10; k++ {
		p.reads(c, 10*k, 10*k, 1, 1)
		p.Clock.Advance(paymentLife)
		list := p.pendingOf("c")
		errs := dbtest.Race(6, func(i int) error {
			if i == 5 {
				return handles[i%2].Book(p.Ctx, list)
			}
			_, err := handles[i%2].Renew(p.Ctx, p.pay(c, 10*k+int64(1+i/2), 10*k))
			if errors.Is(err, ledger.ErrStalePayment) || errors.Is(err, ledger.ErrNothingExpired) {
				return nil
			}
			return err
		})
		for _, err := range errs {
			p.OK(err, "concurrent renewals and a booking")
		}
		p.Audited()
		p.Must(p.getChannel("c").Settled == 10*k && len(p.pendingOf("c")) == 0, "booked: %+v", p.getChannel("c"))
	}
}

// fails submits a payment, which fails or expires.
func (p *probe) fails(s ledger.Settlement, o ledger.Outcome) {
	p.begins(s)
	p.OK(p.Store.EndSubmission(p.Ctx, s.Channel, s.Sequence, o), "end")
	p.Audited()
}

// submissionRenew renews payments that are collected on a chain.
func submissionRenew(p *probe) {
	renewal := func(c ledger.Channel, sequence, amount int64) ledger.Offer {
		pay := p.pay(c, sequence, amount)
		pay.Expires, pay.SettleAt = p.Clock.Now().Add(time.Hour), 1000
		return pay
	}
	for id, o := range map[string]ledger.Outcome{"a": {State: ledger.Expired}, "b": {State: ledger.Failed, Status: "abort"}} {
		c := p.onChain(id, 100)
		s := p.sends(c, 1, 40, 1, time.Minute)
		p.refusedRenewal(id, renewal(c, 2, 40), ledger.ErrNothingExpired, "of a pending payment")
		p.begins(s)
		p.Clock.Advance(time.Hour)
		p.refusedRenewal(id, renewal(c, 2, 40), ledger.ErrNothingExpired, "of a payment in flight")
		p.OK(p.Store.EndSubmission(p.Ctx, id, 1, o), "end")
		p.Must(p.getChannel(id).Expired == 40 && p.getChannel(id).Stopped != "", "at its end: %+v", p.getChannel(id))
		p.refusedRenewal(id, renewal(c, 1, 39), &ledger.StaleError{Stored: s.Proof}, "with another amount")
		pay := renewal(c, 2, 40)
		pay.SettleAt = 1000
		p.renews(pay)
		got := p.getChannel(id)
		p.Must(got.Expired == 0 && got.Stopped != "" && got.Accepted == 40 && got.Settled == 0, "renewed: %+v", got)
		p.due(0, settlement(pay, id))
		p.refusedPayment(id, p.pay(c, 3, 50), ledger.ErrChannelStopped, "before the renewal is collected")
		sub := p.begins(settlement(pay, id))
		p.renews(pay) // repeated
		got = p.ends(id, 2, p.collected(sub))
		p.Must(got.Settled == 40 && got.Stopped == "", "collected: %+v", got)
		p.refusedRenewal(id, renewal(c, 3, 40), ledger.ErrNothingExpired, "of a settled payment")
		p.reads(c, 3, 50, 1, 1)
	}

	// A newer payment expires while one is in flight. The chain's time decides.
	c := p.onChain("c", 100)
	p.begins(p.sends(c, 1, 40, 1, time.Hour))
	newer := p.sends(c, 2, 60, 1, time.Minute)
	ahead := renewal(c, 3, 60)
	ahead.Ahead = time.Minute - time.Microsecond
	p.refusedRenewal("c", ahead, ledger.ErrNothingExpired, "before the ledger has reached its expiry")
	limited := p.pay(c, 3, 70)
	limited.UnsettledLimit, limited.Ahead = 60, time.Minute
	p.refusedPayment("c", limited, &ledger.UnsettledLimitError{Limit: 60, Unsettled: 60, Expired: 20}, "above the limit, after the expiry on the ledger")
	ahead.Ahead = time.Minute
	p.renews(ahead)
	p.Is(p.Store.BeginSubmission(p.Ctx, submission(newer)), database.ErrExists, "a submission while one is in flight")
	p.OK(p.Store.EndSubmission(p.Ctx, "c", 1, ledger.Outcome{State: ledger.Expired}), "end")
	p.Audited()
	p.due(0, settlement(ahead, "c"))
	ahead = renewal(c, 4, 60)
	ahead.Ahead = dbtest.ChannelLife
	p.refusedRenewal("c", ahead, ledger.ErrChannelExpired, "over a channel that has expired on the ledger")

	// Over a channel that is gone a renewal can only fail, and cost the receiver the gas.
	d := p.onChain("d", 100)
	gone := p.reading(d)
	gone.Gone = true
	p.fails(p.sends(d, 1, 10, 1, time.Minute), ledger.Outcome{State: ledger.Failed, Status: "abort", Reading: gone})
	p.refusedRenewal("d", renewal(d, 2, 10), &ledger.InsufficientFundsError{Required: 10, Available: 0}, "over a channel that is gone")
	// The chain decides which sequence numbers are acceptable.
	e := p.onChain("e", 100)
	p.fails(p.sends(e, 1, 10, 1, time.Minute), ledger.Outcome{State: ledger.Failed, Status: "abort"})
	p.shows("e", withdrawn(0, 5))
	p.refusedRenewal("e", renewal(e, 4, 10), &ledger.StaleError{Stored: p.pay(e, 1, 10).Proof}, "with a sequence number that the chain refuses")
	p.renews(renewal(e, 5, 10))
}

// submissionRacingRenewals renews a payment concurrently, while its submission ends.
func submissionRacingRenewals(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	c := p.onChain("c", 1_000_000)
	for k := int64(1); k <= 10; k++ {
		p.begins(p.sends(c, 10*k, 10*k, 1, time.Minute))
		var renewed [5]bool
		errs := dbtest.Race(6, func(i int) error {
			if i == 5 {
				return handles[i%2].EndSubmission(p.Ctx, "c", 10*k, ledger.Outcome{State: ledger.Expired})
			}
			_, err := handles[i%2].Renew(p.Ctx, p.pay(c, 10*k+int64(1+i), 10*k))
			if renewed[i] = err == nil; errors.Is(err, ledger.ErrStalePayment) || errors.Is(err, ledger.ErrNothingExpired) {
				return nil
			}
			return err
		})
		won := 0
		for i, err := range errs {
			p.OK(err, "concurrent renewals and end")
			if i < 5 && renewed[i] {
				won++
			}
		}
		p.Must(won <= 1, "%d renewals of one payment succeeded", won)
		p.Audited()
		if won == 0 {
			p.renews(p.pay(c, 10*k+6, 10*k))
		}
		p.Must(len(p.pendingOf("c")) == 1, "the renewal is not pending")
		sub := p.begins(p.pendingOf("c")[0])
		p.ends("c", sub.Sequence, p.collected(sub))
	}
}

// paymentSellingLimit follows the selling limit of a channel on a chain.
func paymentSellingLimit(p *probe) {
	c := p.onChain("c", math.MaxInt64)
	start := func(sequence, amount int64, form string, simulated bool) ledger.Offer {
		pay := p.pay(c, sequence, amount)
		pay.SettleAt, pay.StartingLimit, pay.UnsettledLimit, pay.Form, pay.Simulated = 1, 10, 35, form, simulated
		return pay
	}
	var last ledger.Offer
	sells := func(pay ledger.Offer) {
		_, err := p.Store.PayRead(p.Ctx, ledger.ReadPurchase{Offer: pay, Price: 1, Count: 1})
		p.OK(err, "payment of %d", pay.Amount)
		last = pay
	}
	collects := func() {
		sub := submission(settlement(last, "c"))
		sub.Form = last.Form
		p.OK(p.Store.BeginSubmission(p.Ctx, sub), "begin")
		p.ends("c", sub.Sequence, p.collected(sub))
	}
	limit := func(limit, unsettled int64) error {
		return &ledger.UnsettledLimitError{Limit: limit, Unsettled: unsettled}
	}
	p.refusedPayment("c", start(1, 11, "f", true), limit(10, 0), "of more than the starting limit")
	sells(start(1, 10, "f", true))
	p.refusedPayment("c", start(2, 11, "f", true), limit(10, 10), "above the starting limit")
	collects() // 10
	p.refusedPayment("c", start(2, 31, "f", false), limit(20, 0), "above the collected amount and the starting limit")
	p.refusedPayment("c", start(2, 21, "g", false), limit(10, 0), "of another form, above the starting limit")
	sells(start(2, 15, "g", false))
	p.Must(p.getChannel("c").Form == "f", "a payment that was not simulated changed the form")
	sells(start(3, 30, "f", false))
	collects() // 30
	p.refusedPayment("c", start(4, 66, "f", false), limit(35, 0), "above the greatest limit")
	sells(start(4, 65, "g", true))
	p.Must(p.getChannel("c").Form == "g", "a payment that was simulated did not change the form")
	p.refusedPayment("c", start(5, 66, "f", false), limit(10, 35), "of the former form")
	collects()
	p.Must(p.getChannel("c").Collected == 65, "%+v", p.getChannel("c"))
	p.shows("c", withdrawn(1000, 9)) // third parties' withdrawals do not raise the limit
	greatest := start(9, math.MaxInt64, "g", false)
	greatest.StartingLimit, greatest.UnsettledLimit = math.MaxInt64-64, math.MaxInt64
	low := greatest
	low.StartingLimit = 1
	p.refusedPayment("c", low, limit(66, 0), "far above the limit")
	sells(greatest)
	p.Audited()
	none := p.Channel("none", "s", 100) // without a chain there is no starting limit
	p.reads(none, 1, 100, 1, 1)
}

// submissionForm checks which form a channel has after an outcome.
func submissionForm(p *probe) {
	c := p.onChain("c", 1000)
	for i, test := range []struct {
		state ledger.SubmissionState
		form  string
		want  string
	}{
		{ledger.Collected, "f", "f"}, {ledger.Expired, "g", "f"}, {ledger.Collected, "g", "g"}, {ledger.Collected, "", "g"},
		{ledger.Failed, "g", ""}, {ledger.Collected, "", ""}, {ledger.Collected, "f", "f"},
	} {
		k := int64(i + 1)
		if p.getChannel("c").Stopped != "" {
			p.renews(p.pay(c, k, 10*(k-1)))
		} else {
			p.sends(c, k, 10*k, 1, time.Minute)
		}
		sub := submission(p.pendingOf("c")[0])
		sub.Form = test.form
		p.OK(p.Store.BeginSubmission(p.Ctx, sub), "begin")
		got := dbtest.Value(p.Store.Submission(p.Ctx, "c"))
		p.Must(got.Form == test.form, "the form of the submission is %q, want %q", got.Form, test.form)
		p.Reopen()
		after := p.ends("c", k, ledger.Outcome{State: test.state, Status: "abort", Withdrawn: sub.Amount})
		p.Must(after.Form == test.want, "the form after outcome %d is %q, want %q", i, after.Form, test.want)
	}
	// A third party's earlier withdrawal proves nothing about the form.
	sub := p.begins(p.sends(c, 8, 80, 1, time.Minute))
	o := p.collected(sub)
	o.State, o.Status = ledger.Failed, "withdrawn before"
	after := p.ends("c", 8, o)
	p.Must(after.Form == "f" && after.Stopped == "" && after.Elsewhere == 10, "third parties have withdrawn: %+v", after)
}

// submissionStop stops a channel with an outcome, whatever that is.
func submissionStop(p *probe) {
	c := p.onChain("c", 1000)
	sub := p.begins(p.sends(c, 1, 10, 1, time.Minute))
	o := p.collected(sub)
	o.Stop = "strange"
	p.Must(p.ends("c", 1, o).Stopped == "strange", "it sells on")
	p.refusedPayment("c", p.pay(c, 2, 20), ledger.ErrChannelStopped, "over a channel that was stopped")
	p.Must(p.shows("c", func(*ledger.Reading) {}).Stopped == "strange", "a reading without a change made it sell")
	other := p.onChain("other", 100)
	p.sends(other, 1, 10, 1, time.Minute) // other channels go on
}

// submissionStopSelling stops a channel because a fullnode refuses its submission.
func submissionStopSelling(p *probe) {
	c := p.onChain("c", 1000)
	stops := func(sequence int64, want string) {
		p.OK(p.Store.StopSelling(p.Ctx, "c", sequence, "refused"), "stop selling")
		p.Must(p.getChannel("c").Stopped == want, "stopped is %q, want %q", p.getChannel("c").Stopped, want)
		p.Audited()
	}
	stops(1, "")
	s := p.sends(c, 1, 10, 1, time.Minute)
	stops(1, "")
	p.begins(s)
	p.sends(c, 2, 20, 1, time.Minute)
	stops(2, "")
	stops(1, "refused")
	stops(1, "refused")
	p.refusedPayment("c", p.pay(c, 3, 30), ledger.ErrChannelStopped, "over a channel whose payment is refused")
	p.Must(p.ends("c", 1, ledger.Outcome{State: ledger.Collected, Withdrawn: 10}).Stopped == "", "it does not sell although it was collected")
	stops(1, "")
	p.begins(p.pendingOf("c")[0])
	stops(2, "refused")
	r := p.reading(p.getChannel("c"))
	r.Withdrawn, r.NextSequence = 20, 3
	got := p.ends("c", 2, ledger.Outcome{State: ledger.Expired, Reading: r})
	p.Must(got.Stopped == "", "it does not sell although third parties have withdrawn the refused amount: %+v", got)
	p.OK(p.Store.StopSelling(p.Ctx, "unknown", 1, "refused"), "stop an unknown channel")
}

// submissionGrownDeposit deposits into channels that have stopped. A deposit ends only a stop that
// a reading has caused: a submitted amount that is owed must be collected first.
func submissionGrownDeposit(p *probe) {
	grows := func(id string, stopped bool) ledger.Channel {
		got := p.shows(id, func(r *ledger.Reading) { r.Deposit += 50 })
		p.Must((got.Stopped != "") == stopped, "after a deposit: %+v", got)
		if stopped {
			p.refusedPayment(id, p.pay(got, got.Sequence+1, got.Accepted+1), ledger.ErrChannelStopped, "after a deposit")
		}
		return got
	}
	sells := func(c ledger.Channel) {
		c = p.getChannel(c.ID)
		p.reads(c, max(c.Sequence+1, c.NextSequence), c.Accepted+10, 1, 10)
		p.Audited()
	}

	// A refused submission is retried as it is.
	c := p.onChain("refused", 100)
	sub := p.begins(p.sends(c, 1, 40, 1, time.Minute))
	p.OK(p.Store.StopSelling(p.Ctx, c.ID, 1, "refused"), "stop selling")
	grows(c.ID, true)
	p.Must(p.ends(c.ID, 1, p.collected(sub)).Stopped == "", "it does not sell although it was collected")
	sells(c)

	// One that has failed or expired is renewed, and so is one for which the deposit did not
	// suffice.
	short := func(r *ledger.Reading) { r.Deposit = 30 }
	for id, test := range map[string]struct {
		outcome ledger.Outcome
		change  func(*ledger.Reading)
	}{
		"expired":       {ledger.Outcome{State: ledger.Expired}, nil},
		"failed":        {ledger.Outcome{State: ledger.Failed, Status: "abort"}, nil},
		"short, failed": {ledger.Outcome{State: ledger.Failed, Status: "EINSUFFICIENT_BALANCE"}, short},
		"short, tried":  {ledger.Outcome{State: ledger.Expired}, short},
	} {
		c := p.onChain(id, 100)
		p.begins(p.sends(c, 1, 40, 1, time.Minute))
		if test.change != nil {
			p.OK(p.Store.StopSelling(p.Ctx, id, 1, "refused"), "stop selling")
			p.shows(id, test.change)
		}
		p.ends(id, 1, test.outcome)
		if test.change != nil {
			p.refusedRenewal(id, p.pay(c, 2, 40), &ledger.InsufficientFundsError{Required: 40, Available: 30}, "of more than the deposit")
		}
		grows(id, true)
		renewal := p.pay(c, 2, 40)
		p.renews(renewal)
		grows(id, true)
		sub := p.begins(settlement(renewal, id))
		grows(id, true)
		p.Must(p.ends(id, 2, p.collected(sub)).Stopped == "", "%s: it does not sell although the renewal was collected", id)
		sells(c)
	}

	// Third parties have withdrawn the debt in part, and then all of it.
	d := p.onChain("elsewhere", 100)
	p.fails(p.sends(d, 1, 40, 1, time.Minute), ledger.Outcome{State: ledger.Expired})
	p.Must(p.shows(d.ID, func(r *ledger.Reading) { r.Withdrawn, r.NextSequence, r.Deposit = 39, 2, 150 }).Stopped != "", "it sells before the money is there")
	p.Must(p.shows(d.ID, func(r *ledger.Reading) { r.Withdrawn, r.NextSequence, r.Deposit = 40, 3, 200 }).Stopped == "", "it does not sell although the money is there")
	sells(d)

	// A deposit ends a stop that a reading has caused: nothing is owed.
	e := p.onChain("nothing owed", 100)
	o := p.collected(p.begins(p.sends(e, 1, 40, 1, time.Minute)))
	o.Stop = "strange"
	p.ends(e.ID, 1, o)
	grows(e.ID, false)
	p.shows(e.ID, func(r *ledger.Reading) { r.Deposit = 60 })
	grows(e.ID, false)
	sells(e)
}

// submissionRacingStops collects submissions while a refusal is recorded: a channel
// sells if its money is there.
func submissionRacingStops(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	c := p.onChain("c", 1_000_000)
	for k := int64(1); k <= 15; k++ {
		sub := p.begins(p.sends(c, k, 10*k, 1, time.Minute))
		o := p.collected(sub)
		for _, err := range dbtest.Race(4, func(i int) error {
			if i == 0 {
				return handles[0].EndSubmission(p.Ctx, "c", k, o)
			}
			return handles[i%2].StopSelling(p.Ctx, "c", k, "refused")
		}) {
			p.OK(err, "concurrent end and refusal")
		}
		p.Must(p.getChannel("c").Stopped == "", "a channel whose money is there has stopped: %+v", p.getChannel("c"))
	}
}
