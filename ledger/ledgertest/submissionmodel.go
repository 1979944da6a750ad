package ledgertest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/ledger"
)

// modelSubmissions plays random histories of payments, submissions, outcomes and readings of
// channels on two handles, and compares every result with a simple model in memory. Each history
// uses separate ids.
func modelSubmissions(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	p.Play(func(t *rapid.T, round int) {
		w := &collecting{T: t, p: p, name: fmt.Sprintf("round%06d-", round), channels: map[string]*collectedChannel{}}
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			w.store = handles[rapid.IntRange(0, 1).Draw(t, "handle")]
			w.step()
		}
		w.verify()
	})
}

// collecting is a model of channels on a chain that collects their payments, and the store that it
// is compared with.
type collecting struct {
	*rapid.T
	p        *probe
	store    whole.Database
	name     string // prefix of all ids
	channels map[string]*collectedChannel
}

// collectedChannel is a channel's model.
type collectedChannel struct {
	ledger.Channel
	pending *ledger.Settlement
	due     time.Time
	last    *ledger.Submission // the newest, in any state
}

func (c *collectedChannel) flying() bool { return c.last != nil && c.last.State == ledger.InFlight }

// owes reports whether the amount that was submitted last is not settled.
func (c *collectedChannel) owes() bool { return c.last != nil && c.last.Amount > c.Settled }

func (w *collecting) now() time.Time { return w.p.Clock.Now() }

func (w *collecting) number(name string, from, to int64) int64 {
	return rapid.Int64Range(from, to).Draw(w.T, name)
}

func (w *collecting) pick() *collectedChannel {
	if len(w.channels) < 3 && w.number("new", 0, 4) == 0 || len(w.channels) == 0 {
		return nil
	}
	return w.channels[rapid.SampledFrom(slices.Sorted(maps.Keys(w.channels))).Draw(w.T, "channel")]
}

func (w *collecting) step() {
	c := w.pick()
	if c == nil {
		w.Open()
		return
	}
	verb := rapid.SampledFrom([]string{"pay", "pay", "pay", "begin", "begin", "end", "end", "read", "read", "renew", "advance"}).Draw(w.T, "verb")
	map[string]func(*collectedChannel){
		"pay": w.pay, "begin": w.Begin, "end": w.end, "read": w.read, "renew": w.renew, "advance": w.advance,
	}[verb](c)
}

func (w *collecting) advance(*collectedChannel) {
	w.p.Clock.Advance(rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second, 10 * time.Second, time.Minute}).Draw(w.T, "time"))
}

func (w *collecting) Open() {
	c := ledger.Channel{
		ID: fmt.Sprint(w.name, len(w.channels)), PaymentChannelID: w.p.Next(), Sender: "s", Receiver: w.name, Asset: "a", Deposit: 100,
		Expires: w.now().Add(10 * time.Hour), Withdrawn: w.number("withdrawn", 0, 3), NextSequence: w.number("next", 0, 2), ChainTime: w.now(),
		ChainCreated: w.now().Add(-time.Hour),
	}
	got, err := w.store.OpenChannel(w.p.Ctx, c, nil)
	c.Created, c.Read, c.Settled, c.Sequence = w.now(), w.now(), c.Withdrawn, c.NextSequence-1
	w.channels[c.ID] = &collectedChannel{Channel: c}
	w.p.Agree("open", got, c, err, nil)
}

func (w *collecting) pay(c *collectedChannel) {
	paid := max(c.Accepted, c.Withdrawn)
	p := ledger.Offer{Payment: ledger.Payment{
		Sender: c.Sender, Receiver: c.Receiver, Asset: c.Asset, PaymentChannelID: c.PaymentChannelID,
		Sequence: c.Sequence + w.number("sequence", 0, 2), Amount: paid + w.number("amount", 1, 30),
		Expires: w.now().Add(time.Duration(w.number("life", 1, 100)) * time.Second), Form: rapid.SampledFrom([]string{"f", "g"}).Draw(w.T, "form"),
	}, Policy: ledger.Policy{UnsettledLimit: 60, SettleAt: 20, StartingLimit: w.number("start", 0, 1) * 30, Simulated: w.number("simulated", 0, 2) > 0}}
	p.Proof = fmt.Append(nil, c.ID, p.Sequence, w.p.Next())
	form, limit := c.Form, p.UnsettledLimit
	if p.Simulated {
		form = p.Form
	}
	if p.StartingLimit > 0 {
		limit = p.StartingLimit
		if form == p.Form {
			limit = min(p.UnsettledLimit, limit+c.Collected)
		}
	}
	var wantErr error
	switch {
	case c.State(w.now()) == ledger.ChannelExpired:
		wantErr = ledger.ErrChannelExpired
	case c.Stopped != "":
		wantErr = ledger.ErrChannelStopped
	case p.Sequence <= c.Sequence || p.Sequence < c.NextSequence:
		wantErr = ledger.ErrStalePayment
	case p.Amount > c.Deposit:
		wantErr = ledger.ErrInsufficientFunds
	case p.Amount-c.Settled > limit:
		wantErr = &ledger.UnsettledLimitError{Limit: limit, Unsettled: max(0, c.Accepted-c.Settled), Expired: w.expired(c)}
	}
	got, err := w.store.PayRead(w.p.Ctx, ledger.ReadPurchase{Offer: p, Price: 1, Count: p.Amount - paid})
	if wantErr == nil {
		c.Accepted, c.Sequence, c.Proof, c.Form = p.Amount, p.Sequence, p.Proof, form
		due := w.now().Add(min(p.Expires.Sub(w.now()), c.Expires.Sub(w.now())) / 2)
		if c.Accepted-max(c.Settled, c.Submitted) >= min(p.SettleAt, limit/2) {
			due = w.now()
		}
		w.pend(c, p, due)
	}
	w.agree("pay", got, c.Channel, err, wantErr)
}

// pend makes a payment the pending settlement.
func (w *collecting) pend(c *collectedChannel, p ledger.Offer, due time.Time) {
	if c.pending == nil || due.Before(c.due) {
		c.due = due
	}
	s := settlement(p, c.ID)
	c.pending = &s
}

// expired returns the amount that can be collected only after a renewal.
func (w *collecting) expired(c *collectedChannel) int64 {
	known := max(c.Settled, c.Withdrawn)
	switch {
	case c.pending != nil && w.now().Before(c.pending.Expires), c.pending == nil && c.flying():
		return 0
	case c.flying():
		known = max(known, c.last.Amount)
	}
	return max(0, c.Accepted-known)
}

func (w *collecting) renew(c *collectedChannel) {
	p := ledger.Offer{Payment: ledger.Payment{
		Sender: c.Sender, Receiver: c.Receiver, Asset: c.Asset, PaymentChannelID: c.PaymentChannelID,
		Sequence: c.Sequence + w.number("sequence", 0, 2), Amount: c.Accepted + max(0, w.number("amount", -5, 1)),
		Expires: w.now().Add(time.Duration(w.number("life", 1, 100)) * time.Second),
	}, Policy: ledger.Policy{SettleAt: 20, UnsettledLimit: 1}}
	p.Proof = fmt.Append(nil, c.ID, p.Sequence, w.p.Next())
	var wantErr error
	switch {
	case !w.now().Before(c.Expires):
		wantErr = ledger.ErrChannelExpired
	case p.Amount != c.Accepted, p.Sequence <= c.Sequence, p.Sequence < c.NextSequence:
		wantErr = ledger.ErrStalePayment
	case w.expired(c) == 0:
		wantErr = ledger.ErrNothingExpired
	case p.Amount > c.Deposit:
		wantErr = ledger.ErrInsufficientFunds
	}
	got, err := w.store.Renew(w.p.Ctx, p)
	got.Stopped = c.sameStop(got.Stopped)
	if wantErr == nil {
		c.Sequence, c.Proof = p.Sequence, p.Proof
		w.pend(c, p, w.now())
	}
	w.agree("renew", got, c.Channel, err, wantErr)
}

// agree is Agree, but compares only the sentinels of errors.
func (w *collecting) agree(label string, got, want any, err, wantErr error) {
	if wantErr == nil || !errors.Is(err, wantErr) {
		w.p.Agree(label, got, want, err, wantErr)
	}
}

func (w *collecting) Begin(c *collectedChannel) {
	if c.pending == nil {
		return
	}
	s := *c.pending
	s.Sequence += max(0, w.number("wrong", -8, 1))
	sub := submission(s)
	sub.Form = rapid.SampledFrom([]string{"f", "g"}).Draw(w.T, "form")
	var wantErr error
	switch {
	case c.flying():
		wantErr = database.ErrExists
	case s.Sequence != c.pending.Sequence:
		wantErr = database.ErrNotFound
	default:
		sub.Begun = w.now()
		c.last, c.pending, c.Submitted = &sub, nil, s.Amount
	}
	w.agree("begin", nil, nil, w.store.BeginSubmission(w.p.Ctx, sub), wantErr)
}

func (w *collecting) end(c *collectedChannel) {
	if c.last == nil {
		return
	}
	o := ledger.Outcome{State: rapid.SampledFrom([]ledger.SubmissionState{ledger.Collected, ledger.Collected, ledger.Failed, ledger.Expired}).Draw(w.T, "outcome")}
	o.Reading = w.reading(c)
	switch o.State {
	case ledger.Collected:
		o.Withdrawn = max(c.last.Amount, c.Withdrawn)
		if !o.Reading.Gone && o.Reading.Created.Equal(c.ChainCreated) {
			o.Reading.Withdrawn = max(o.Reading.Withdrawn, o.Withdrawn)
			o.Reading.NextSequence = max(o.Reading.NextSequence, c.last.Sequence+1)
		}
	case ledger.Failed:
		o.Status = "abort"
	}
	err := w.store.EndSubmission(w.p.Ctx, c.ID, c.last.Sequence, o)
	if !c.flying() {
		var wantErr error
		if o.State != c.last.State {
			wantErr = dbtest.ErrAny
		}
		w.p.Agree("end again", nil, nil, err, wantErr)
		return
	}
	c.last.State, c.last.Status, c.last.Body, c.last.Ended = o.State, o.Status, nil, w.now()
	c.Submitted = 0
	before := *c
	if o.State == ledger.Collected {
		c.Collected += max(0, c.last.Amount-c.Settled)
		c.Settled, c.Form = max(c.Settled, c.last.Amount), c.last.Form
		c.Withdrawn = max(c.Withdrawn, c.Settled)
		if c.Accepted <= c.Deposit {
			c.Stopped = ""
		}
	}
	w.apply(c, before, o.Reading)
	if o.State != ledger.Collected {
		if c.last.Amount > c.Settled {
			c.Stopped = "not collected"
			if o.State == ledger.Failed {
				c.Form = ""
			}
		}
		if c.pending != nil && w.now().Before(c.due) {
			c.due = w.now()
		}
	}
	w.p.OK(err, "end")
}

// reading draws a fullnode's reading: nothing has changed, or much.
func (w *collecting) reading(c *collectedChannel) ledger.Reading {
	r := w.p.reading(c.Channel)
	r.Deposit = max(0, r.Deposit+w.number("deposit", -5, 40))
	if w.number("elsewhere", 0, 4) == 0 {
		r.Withdrawn = min(r.Deposit, c.Withdrawn+w.number("withdrawn", 1, 60))
		r.NextSequence = max(r.NextSequence, w.number("next", 0, 20))
	}
	switch w.number("strange", 0, 19) {
	case 0:
		r.Gone = true
	case 1:
		r.Created, r.Withdrawn = r.Created.Add(time.Second), w.number("withdrawn again", 0, 200)
	case 2:
		r.Created = r.Created.Add(-time.Second)
	case 3:
		r.Withdrawn = max(0, c.Withdrawn-1)
	case 4:
		r.ChainTime = c.ChainTime.Add(-time.Second)
	case 5:
		r.ChainTime = r.ChainTime.Add(ledger.MaxChainAhead)
	case 6:
		r.ChainTime = r.ChainTime.Add(ledger.MaxChainAhead + time.Microsecond)
	}
	return r
}

// apply applies a reading to the model. before is the channel before its submission ended.
func (w *collecting) apply(c *collectedChannel, before collectedChannel, r ledger.Reading) {
	stops := false
	if w.takes(c, r) {
		c.ChainTime, c.Read = r.ChainTime, w.now()
		switch {
		case r.Gone:
			stops, c.Deposit = true, 0
		case r.Created.After(c.ChainCreated):
			stops, c.Deposit = true, 0
		default:
			switch {
			case r.Deposit < c.Deposit:
				stops = true
			case r.Deposit > c.Deposit && r.Deposit >= c.Accepted && !c.owes(), r.Withdrawn > max(c.Accepted, c.Settled) && r.Deposit >= r.Withdrawn:
				c.Stopped = ""
			}
			if r.Withdrawn < c.Withdrawn { // it corrects
				c.Settled = min(c.Settled, r.Withdrawn)
				c.Collected = min(c.Collected, c.Settled)
				c.Elsewhere = min(c.Elsewhere, c.Settled-c.Collected)
				if c.pending == nil && c.Proof != nil && c.Accepted > max(c.Settled, c.Submitted) {
					c.due = w.now().Add(1000 * time.Hour)
					c.pending = &ledger.Settlement{Channel: c.ID, Sequence: c.Sequence, Amount: c.Accepted, Proof: c.Proof, Expires: w.now()}
				}
			}
			c.Deposit, c.Withdrawn, c.NextSequence, c.Expires, c.ChainCreated = r.Deposit, r.Withdrawn, r.NextSequence, r.Expires, r.Created
		}
	}
	if !c.flying() && c.Withdrawn > c.Settled {
		c.Elsewhere += c.Withdrawn - c.Settled
		c.Settled = c.Withdrawn
	}
	if c.pending != nil && c.pending.Amount <= c.Withdrawn {
		c.pending = nil
	}
	bad := c.last != nil && (c.last.State == ledger.Failed || c.last.State == ledger.Expired)
	if bad && c.last.Amount > before.Settled && c.last.Amount <= c.Settled && c.Accepted <= c.Deposit {
		c.Stopped = ""
	}
	if stops {
		c.Stopped = "by a reading"
	}
}

// takes reports whether a reading has an effect.
func (w *collecting) takes(c *collectedChannel, r ledger.Reading) bool {
	latest := w.now().Add(ledger.MaxChainAhead)
	switch {
	case r.ChainTime.After(latest):
		return false
	case r.Corrects:
		return true
	case r.ChainTime.Before(c.ChainTime) && !c.ChainTime.After(latest):
		return false
	case r.Gone, r.Created.After(c.ChainCreated):
		return true
	}
	return !r.Created.Before(c.ChainCreated) && r.Withdrawn >= c.Withdrawn
}

func (w *collecting) read(c *collectedChannel) {
	r := w.reading(c)
	r.Corrects = w.number("corrects", 0, 4) == 0
	w.apply(c, *c, r)
	got, err := w.store.RecordReading(w.p.Ctx, c.ID, r)
	got.Stopped = c.sameStop(got.Stopped)
	w.p.Agree("reading", got, c.Channel, err, nil)
}

// sameStop returns the reason in the model if the store has any where the model has one: their
// words differ.
func (c *collectedChannel) sameStop(reason string) string {
	if (reason == "") == (c.Stopped == "") {
		return c.Stopped
	}
	return reason
}

// verify compares everything with the model, and audits the store.
func (w *collecting) verify() {
	ctx := w.p.Ctx
	wantDue, wantFlying := map[string]ledger.Settlement{}, map[string]ledger.Submission{}
	for id, c := range w.channels {
		got, err := w.store.Channel(ctx, id)
		got.Stopped = c.sameStop(got.Stopped)
		want := c.Channel
		want.Expired = w.expired(c)
		w.p.Agree("channel", got, want, err, nil)
		if c.pending != nil && !c.flying() && !w.now().Before(c.due) {
			wantDue[id] = *c.pending
		}
		if c.flying() {
			wantFlying[id] = *c.last
		}
	}
	due, err := w.store.DueSettlements(ctx, 0, ledger.Settlement{}, 10_000)
	gotDue := map[string]ledger.Settlement{}
	for _, s := range due {
		if strings.HasPrefix(s.Channel, w.name) {
			gotDue[s.Channel] = s
		}
	}
	w.p.Agree("due", gotDue, wantDue, err, nil)
	submitted, err := w.store.SubmissionsInFlight(ctx, w.name, 1000)
	gotFlying := map[string]ledger.Submission{}
	for _, s := range submitted {
		if strings.HasPrefix(s.Channel, w.name) {
			gotFlying[s.Channel] = s
		}
	}
	w.p.Agree("in flight", gotFlying, wantFlying, err, nil)
	w.p.Audited()
}
