package metatest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"sluice/metastore"
)

// modelSubmissions plays random histories of payments, submissions, outcomes and readings of channels on two
// handles, and compares every result with a simple model in memory. Each history uses separate ids.
func modelSubmissions(p *probe) {
	handles := []metastore.Store{p.store, p.open()}
	p.play(func(t *rapid.T, round int) error {
		w := &collecting{T: t, p: p, name: fmt.Sprintf("round%06d-", round), channels: map[string]*collectedChannel{}}
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			w.store = handles[rapid.IntRange(0, 1).Draw(t, "handle")]
			if err := w.step(); err != nil {
				return err
			}
		}
		return w.verify()
	})
}

// collecting is a model of channels whose payments are collected on a chain, and the store that it is compared
// with.
type collecting struct {
	*rapid.T
	p        *probe
	store    metastore.Store
	name     string // prefix of all ids
	channels map[string]*collectedChannel
}

// collectedChannel is the model of a channel.
type collectedChannel struct {
	metastore.Channel
	pending *metastore.Settlement
	due     time.Time
	last    *metastore.Submission // the newest, in any state
}

func (c *collectedChannel) flying() bool { return c.last != nil && c.last.State == metastore.InFlight }

func (w *collecting) now() time.Time { return w.p.clock.Now() }

func (w *collecting) number(name string, from, to int64) int64 {
	return rapid.Int64Range(from, to).Draw(w.T, name)
}

func (w *collecting) pick() *collectedChannel {
	if len(w.channels) < 3 && w.number("new", 0, 4) == 0 || len(w.channels) == 0 {
		return nil
	}
	return w.channels[rapid.SampledFrom(slices.Sorted(maps.Keys(w.channels))).Draw(w.T, "channel")]
}

func (w *collecting) step() error {
	c := w.pick()
	if c == nil {
		return w.open()
	}
	switch rapid.SampledFrom([]string{"pay", "pay", "pay", "begin", "begin", "end", "end", "read", "advance"}).Draw(w.T, "verb") {
	case "pay":
		return w.pay(c)
	case "begin":
		return w.begin(c)
	case "end":
		return w.end(c)
	case "read":
		return w.read(c)
	default:
		w.p.clock.Advance(rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second, 10 * time.Second, time.Minute}).Draw(w.T, "time"))
		return nil
	}
}

func (w *collecting) open() error {
	w.p.keys++
	c := metastore.Channel{
		ID: fmt.Sprint(w.name, len(w.channels)), PaymentChannelID: int64(w.p.keys), Sender: "s", Receiver: w.name, Asset: "a", Deposit: 100,
		Expires: w.now().Add(10 * time.Hour), Withdrawn: w.number("withdrawn", 0, 3), NextSequence: w.number("next", 0, 2), Ledger: w.now(),
	}
	got, err := w.store.OpenChannel(w.p.ctx, c, nil)
	c.Created, c.Read, c.Accepted, c.Settled, c.Sequence = w.now(), w.now(), c.Withdrawn, c.Withdrawn, c.NextSequence-1
	w.channels[c.ID] = &collectedChannel{Channel: c}
	return agree("open", got, c, err, nil)
}

func (w *collecting) pay(c *collectedChannel) error {
	p := metastore.Payment{
		Sender: c.Sender, Receiver: c.Receiver, Asset: c.Asset, PaymentChannelID: c.PaymentChannelID,
		Sequence: c.Sequence + w.number("sequence", 0, 2), Amount: c.Accepted + w.number("amount", 1, 30), UnsettledLimit: 60,
		Expires: w.now().Add(time.Duration(w.number("life", 1, 100)) * time.Second), SettleAt: 20,
	}
	p.Proof = fmt.Append(nil, c.ID, p.Sequence)
	var wantErr error
	switch {
	case c.State(w.now()) == metastore.ChannelExpired:
		wantErr = metastore.ErrChannelExpired
	case c.Stopped != "":
		wantErr = metastore.ErrChannelStopped
	case p.Sequence <= c.Sequence || p.Sequence < c.NextSequence || p.Amount <= c.Withdrawn:
		wantErr = metastore.ErrStalePayment
	case p.Amount > c.Deposit:
		wantErr = metastore.ErrInsufficientFunds
	case p.Amount-c.Settled > p.UnsettledLimit:
		wantErr = metastore.ErrUnsettledLimit
	}
	got, err := w.store.PayRead(w.p.ctx, metastore.ReadPurchase{Payment: p, Price: 1, Count: p.Amount - c.Accepted})
	if wantErr == nil {
		c.Accepted, c.Sequence, c.Proof = p.Amount, p.Sequence, p.Proof
		due := w.now().Add(min(p.Expires.Sub(w.now()), c.Expires.Sub(w.now())) / 2)
		if c.Accepted-max(c.Settled, c.Submitted) >= p.SettleAt {
			due = w.now()
		}
		if c.pending == nil || due.Before(c.due) {
			c.due = due
		}
		s := settlement(p, c.ID)
		c.pending = &s
	}
	return agreeErr("pay", got, c.Channel, err, wantErr)
}

// agreeErr is agree for errors of which only the sentinel is compared.
func agreeErr(what string, got, want any, err, wantErr error) error {
	if wantErr == nil {
		return agree(what, got, want, err, nil)
	}
	if !errors.Is(err, wantErr) {
		return fmt.Errorf("%s: got error %w, want %w", what, err, wantErr)
	}
	return nil
}

func (w *collecting) begin(c *collectedChannel) error {
	if c.pending == nil {
		return nil
	}
	s := *c.pending
	s.Sequence += max(0, w.number("wrong", -8, 1))
	sub := submission(s)
	var wantErr error
	switch {
	case c.flying():
		wantErr = metastore.ErrExists
	case s.Sequence != c.pending.Sequence:
		wantErr = metastore.ErrNotFound
	default:
		sub.Begun = w.now()
		c.last, c.pending, c.Submitted = &sub, nil, s.Amount
	}
	return agreeErr("begin", nil, nil, w.store.BeginSubmission(w.p.ctx, sub), wantErr)
}

func (w *collecting) end(c *collectedChannel) error {
	if c.last == nil {
		return nil
	}
	o := metastore.Outcome{State: rapid.SampledFrom([]metastore.SubmissionState{metastore.Collected, metastore.Collected, metastore.Failed, metastore.Expired}).Draw(w.T, "outcome")}
	o.Reading = w.p.reading(c.Channel)
	switch o.State {
	case metastore.Collected:
		o.Reading.Withdrawn, o.Reading.NextSequence = max(c.last.Amount, c.Withdrawn), max(c.last.Sequence+1, c.NextSequence)
		o.Reading.Gone = w.number("gone", 0, 9) == 0
	case metastore.Failed:
		o.Status = "abort"
	}
	err := w.store.EndSubmission(w.p.ctx, c.ID, c.last.Sequence, o)
	if !c.flying() {
		if o.State == c.last.State {
			return agree("end again", nil, nil, err, nil)
		}
		return agree("end differently", nil, nil, err, errAny)
	}
	c.last.State, c.last.Status, c.last.Body, c.last.Ended = o.State, o.Status, nil, w.now()
	c.Submitted = 0
	if o.State == metastore.Collected {
		c.Collected += max(0, c.last.Amount-c.Settled)
		c.Settled = max(c.Settled, c.last.Amount)
		c.Withdrawn = max(c.Withdrawn, c.Settled)
		if c.Accepted <= c.Deposit {
			c.Stopped = ""
		}
	}
	w.apply(c, o.Reading)
	if o.State != metastore.Collected && c.last.Amount > c.Settled {
		c.Stopped = "not collected"
	}
	if o.State != metastore.Collected && c.pending != nil && w.now().Before(c.due) {
		c.due = w.now()
	}
	return agree("end", nil, nil, err, nil)
}

// apply applies a reading to the model.
func (w *collecting) apply(c *collectedChannel, r metastore.Reading) {
	switch {
	case r.Gone:
		c.Stopped, c.Deposit = "gone", 0
	case r.Deposit < c.Deposit:
		c.Stopped = "changed"
	case r.Deposit > c.Deposit && r.Deposit >= c.Accepted:
		c.Stopped = ""
	}
	if !r.Gone {
		c.Deposit, c.Withdrawn, c.NextSequence, c.Expires = r.Deposit, r.Withdrawn, r.NextSequence, r.Expires
	}
	c.Ledger, c.Read = r.Ledger, w.now()
}

func (w *collecting) read(c *collectedChannel) error {
	r := w.p.reading(c.Channel)
	r.Deposit = max(0, r.Deposit+w.number("deposit", -5, 40))
	r.Gone = w.number("gone", 0, 9) == 0
	old := w.number("old", 0, 4) == 0
	if old {
		r.Ledger = c.Ledger.Add(-time.Second)
	} else {
		w.apply(c, r)
	}
	got, err := w.store.RecordReading(w.p.ctx, c.ID, r)
	got.Stopped = c.sameStop(got.Stopped)
	return agree("reading", got, c.Channel, err, nil)
}

// sameStop returns the reason in the model if the store has any where the model has one: their words differ.
func (c *collectedChannel) sameStop(reason string) string {
	if (reason == "") == (c.Stopped == "") {
		return c.Stopped
	}
	return reason
}

// verify compares everything with the model, and audits the store.
func (w *collecting) verify() error {
	ctx := w.p.ctx
	wantDue, wantFlying := map[string]metastore.Settlement{}, map[string]metastore.Submission{}
	for id, c := range w.channels {
		got, err := w.store.Channel(ctx, id)
		got.Expired = 0
		got.Stopped = c.sameStop(got.Stopped)
		if err := agree("channel", got, c.Channel, err, nil); err != nil {
			return err
		}
		if c.pending != nil && !c.flying() && !w.now().Before(c.due) {
			wantDue[id] = *c.pending
		}
		if c.flying() {
			wantFlying[id] = *c.last
		}
	}
	due, err := w.store.DueSettlements(ctx, 0, metastore.Settlement{}, 10_000)
	gotDue := map[string]metastore.Settlement{}
	for _, s := range due {
		if strings.HasPrefix(s.Channel, w.name) {
			gotDue[s.Channel] = s
		}
	}
	if err := agree("due", gotDue, wantDue, err, nil); err != nil {
		return err
	}
	submitted, err := w.store.SubmissionsInFlight(ctx, w.name, 1000)
	gotFlying := map[string]metastore.Submission{}
	for _, s := range submitted {
		if strings.HasPrefix(s.Channel, w.name) {
			gotFlying[s.Channel] = s
		}
	}
	if err := agree("in flight", gotFlying, wantFlying, err, nil); err != nil {
		return err
	}
	found, err := w.store.Audit(ctx)
	return agree("audit", found, []string(nil), err, nil)
}
