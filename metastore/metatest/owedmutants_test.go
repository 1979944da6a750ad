package metatest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/ledger"
	"sluice/metastore/metatest"
)

// TestBrokenDebtsAreCaught breaks what becomes of payments that expire, fail, or are collected by others.
func TestBrokenDebtsAreCaught(t *testing.T) {
	renewal := func(change func(*ledger.Payment), after string) func(metatest.Handle, string) metatest.Handle {
		return func(h metatest.Handle, path string) metatest.Handle { return renewsBadly{h, path, change, after} }
	}
	reading := func(change func(before ledger.Channel, now time.Time, r *ledger.Reading), after string) func(metatest.Handle, string) metatest.Handle {
		return func(h metatest.Handle, path string) metatest.Handle { return readsBadly{h, path, change, after} }
	}
	payment := func(change func(*ledger.Payment)) func(metatest.Handle, string) metatest.Handle {
		return func(h metatest.Handle, _ string) metatest.Handle { return paysBadly{h, change} }
	}
	outcome := func(change func(*ledger.Outcome)) func(metatest.Handle, string) metatest.Handle {
		return func(h metatest.Handle, _ string) metatest.Handle { return endsBadly{h, change} }
	}
	nothing := func(ledger.Channel, time.Time, *ledger.Reading) {}
	catch(t, []mutant{
		{"renews what has not expired", renewal(func(p *ledger.Payment) { p.Ahead += time.Minute }, ""), []string{"payments/renew", "submissions/renew"}},
		{"does not ask the ledger what has expired", renewal(func(p *ledger.Payment) { p.Ahead = 0 }, ""), []string{"submissions/renew"}},
		{"forgets a renewal", renewal(nil, `DELETE FROM settlements WHERE channel = $1`), []string{"payments/renew", "submissions/renew"}},
		{"sells for a renewal", renewal(nil, `UPDATE channels SET credit = credit + accepted WHERE id = $1`), []string{"payments/renew"}},
		{"sells after a renewal", renewal(nil, `UPDATE channels SET stopped = NULL WHERE id = $1`), []string{"submissions/renew"}},
		{"postpones a renewal", renewal(nil, `UPDATE settlements SET due = expires WHERE channel = $1`), []string{"submissions/renew"}},
		{"renews over a channel that is gone", func(h metatest.Handle, path string) metatest.Handle { return renewsGone{h, path} }, []string{"submissions/renew"}},
		{"takes a renewal as a payment", func(h metatest.Handle, _ string) metatest.Handle { return paysByRenewal{h} }, []string{"payments/renew"}},
		{"offers no settlement that has expired", func(h metatest.Handle, _ string) metatest.Handle { return offersLive{h} }, []string{"settlements/list", "payments/renew", "model/payments"}},
		{"opens a channel by a ledger of the future", func(h metatest.Handle, _ string) metatest.Handle { return opensAhead{h} }, []string{"channels/ahead"}},
		{"believes a ledger of the future", reading(func(_ ledger.Channel, now time.Time, r *ledger.Reading) {
			if r.ChainTime.After(now) {
				r.ChainTime = now
			}
		}, ""), []string{"channels/ahead", "model/submissions"}},
		{"keeps a ledger of the future", reading(func(before ledger.Channel, now time.Time, r *ledger.Reading) {
			if before.ChainTime.After(now.Add(ledger.MaxChainAhead)) {
				r.ChainTime = time.Time{}
			}
		}, ""), []string{"channels/ahead"}},
		{"ends by a ledger of the future", outcome(func(o *ledger.Outcome) {
			if o.Withdrawn > 0 {
				o.Reading.ChainTime = o.Reading.ChainTime.Add(-24 * time.Hour)
			}
		}), []string{"channels/ahead"}},
		{"takes a fullnode that is behind for a new channel", reading(func(_ ledger.Channel, _ time.Time, r *ledger.Reading) { r.Created = time.Time{} }, ""),
			[]string{"channels/behind", "model/submissions"}},
		{"takes a new channel for the old one", reading(func(before ledger.Channel, _ time.Time, r *ledger.Reading) {
			r.Created, r.Withdrawn = before.ChainCreated, max(r.Withdrawn, before.Withdrawn)
		}, ""), []string{"channels/again", "model/submissions"}},
		{"believes what a new channel shows about the old one", outcome(func(o *ledger.Outcome) { o.Withdrawn = 0 }), []string{"channels/again"}},
		{"extends no expired channel", reading(func(before ledger.Channel, now time.Time, r *ledger.Reading) {
			if before.State(now) == ledger.ChannelExpired {
				r.ChainTime = time.Time{}
			}
		}, ""), []string{"channels/extended"}},
		{"counts as credit what others have withdrawn", reading(nothing, `UPDATE channels SET credit = credit + accepted - sequence, folded = folded - accepted + sequence
			WHERE id = $1 AND proof IS NULL AND accepted > sequence`), []string{"channels/elsewhere", "channels/restored"}},
		{"counts as collected what others have withdrawn", reading(nothing, `UPDATE channels SET collected = collected + elsewhere, elsewhere = 0 WHERE id = $1`),
			[]string{"channels/elsewhere", "payments/selling-limit", "model/submissions"}},
		{"settles nothing that others have withdrawn", reading(nothing, `UPDATE channels SET settled = collected, elsewhere = 0 WHERE id = $1`),
			[]string{"channels/elsewhere", "channels/restored"}},
		{"settles before it knows who has withdrawn", reading(nothing, `UPDATE channels SET settled = withdrawn, elsewhere = withdrawn - collected WHERE id = $1 AND submitted > 0`),
			[]string{"channels/in-flight", "model/submissions"}},
		{"reports nothing as withdrawn elsewhere", func(h metatest.Handle, _ string) metatest.Handle { return nothingElsewhere{h} }, []string{"channels/elsewhere"}},
		{"has no starting limit", payment(func(p *ledger.Payment) { p.StartingLimit = 0 }), []string{"payments/selling-limit", "model/submissions"}},
		{"has a starting limit only", payment(func(p *ledger.Payment) {
			if p.StartingLimit > 0 {
				p.UnsettledLimit = p.StartingLimit
			}
		}), []string{"payments/selling-limit"}},
		{"takes all forms for one", payment(func(p *ledger.Payment) { p.Form = "f" }), []string{"payments/selling-limit"}},
		{"takes each form for simulated", payment(func(p *ledger.Payment) { p.Simulated = true }), []string{"payments/selling-limit", "model/submissions"}},
		{"forgets the form of what it collects", func(h metatest.Handle, _ string) metatest.Handle { return forgetsForm{h} }, []string{"submissions/form", "model/submissions"}},
		{"collects at the end of a long life", payment(func(p *ledger.Payment) { p.SettleWithin = 0 }), []string{"submissions/within"}},
		{"does not stop what is strange", outcome(func(o *ledger.Outcome) { o.Stop = "" }), []string{"submissions/stop"}},
		{"sells what a fullnode refuses", func(h metatest.Handle, _ string) metatest.Handle { return neverStops{h} }, []string{"submissions/stop-selling"}},
		{"stops what has ended", func(h metatest.Handle, path string) metatest.Handle { return stopsLate{h, path} }, []string{"submissions/stop-selling", "submissions/racing-stops"}},
		{"sells for a deposit what is owed", func(h metatest.Handle, path string) metatest.Handle { return sellsForADeposit{h, path} },
			[]string{"submissions/grown-deposit"}},
		{"postpones nothing", func(h metatest.Handle, path string) metatest.Handle { return postponesBadly{h, path, ``} }, []string{"submissions/postpone"}},
		{"postpones a newer payment", func(h metatest.Handle, path string) metatest.Handle {
			return postponesBadly{h, path, `UPDATE settlements SET due = $1 WHERE channel = $2 AND due IS NOT NULL`}
		}, []string{"submissions/postpone"}},
		{"makes due what never is", func(h metatest.Handle, path string) metatest.Handle {
			return postponesBadly{h, path, `UPDATE settlements SET due = $1 WHERE channel = $2 AND sequence = $3`}
		}, []string{"submissions/postpone"}},
	})
}

// renewsBadly changes a renewal before it is stored, and runs a statement for its channel afterwards.
type renewsBadly struct {
	metatest.Handle
	path   string
	change func(*ledger.Payment)
	after  string
}

func (s renewsBadly) Renew(ctx context.Context, p ledger.Payment) (ledger.Channel, error) {
	if s.change != nil {
		s.change(&p)
	}
	c, err := s.Handle.Renew(ctx, p)
	if err == nil && s.after != "" {
		err = query(ctx, s.path, s.after, []byte(c.ID))
	}
	return c, err
}

// renewsGone takes no account of the deposit.
type renewsGone struct {
	metatest.Handle
	path string
}

func (s renewsGone) Renew(ctx context.Context, p ledger.Payment) (ledger.Channel, error) {
	const set = `UPDATE channels SET deposit = $1 WHERE id = $2`
	c, err := s.FindChannel(ctx, p.Sender, p.Receiver, p.Asset, p.PaymentChannelID)
	if err == nil {
		err = query(ctx, s.path, set, max(c.Deposit, c.Accepted), []byte(c.ID))
	}
	if err != nil {
		return c, err
	}
	out, err := s.Handle.Renew(ctx, p)
	out.Deposit = c.Deposit
	return out, errors.Join(err, query(ctx, s.path, set, c.Deposit, []byte(c.ID)))
}

// paysByRenewal accepts a payment of the accepted amount as a renewal.
type paysByRenewal struct{ metatest.Handle }

func (s paysByRenewal) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	c, err := s.Handle.PayRead(ctx, r)
	if errors.Is(err, ledger.ErrStalePayment) {
		if renewed, err := s.Renew(ctx, r.Payment); err == nil {
			return renewed, nil
		}
	}
	return c, err
}

type offersLive struct{ metatest.Handle }

func (s offersLive) Settlements(ctx context.Context, after ledger.Settlement, limit int) ([]ledger.Settlement, error) {
	all, err := s.Handle.Settlements(ctx, after, limit)
	var live []ledger.Settlement
	for _, one := range all {
		if one.Expires.After(s.Now()) {
			live = append(live, one)
		}
	}
	return live, err
}

type opensAhead struct{ metatest.Handle }

func (s opensAhead) OpenChannel(ctx context.Context, c ledger.Channel, idem *ledger.Idempotency) (ledger.Channel, error) {
	if c.ChainTime.After(s.Now()) {
		c.ChainTime = s.Now()
	}
	return s.Handle.OpenChannel(ctx, c, idem)
}

// readsBadly changes a reading before it is recorded, and runs a statement for its channel afterwards.
type readsBadly struct {
	metatest.Handle
	path   string
	change func(before ledger.Channel, now time.Time, r *ledger.Reading)
	after  string
}

func (s readsBadly) RecordReading(ctx context.Context, id string, r ledger.Reading) (ledger.Channel, error) {
	before, err := s.Channel(ctx, id)
	if err != nil {
		return before, err
	}
	s.change(before, s.Now(), &r)
	c, err := s.Handle.RecordReading(ctx, id, r)
	if err != nil || s.after == "" {
		return c, err
	}
	if err := query(ctx, s.path, s.after, []byte(id)); err != nil {
		return c, err
	}
	c, err = s.Channel(ctx, id)
	c.Expired = 0
	return c, err
}

// sellsForADeposit lets a stopped channel sell as soon as its deposit has grown.
type sellsForADeposit struct {
	metatest.Handle
	path string
}

func (s sellsForADeposit) RecordReading(ctx context.Context, id string, r ledger.Reading) (ledger.Channel, error) {
	before, err := s.Channel(ctx, id)
	if err != nil {
		return before, err
	}
	c, err := s.Handle.RecordReading(ctx, id, r)
	if err == nil && c.Deposit > before.Deposit && c.Deposit >= c.Accepted {
		c.Stopped, err = "", query(ctx, s.path, `UPDATE channels SET stopped = NULL WHERE id = $1`, []byte(id))
	}
	return c, err
}

// paysBadly changes payments.
type paysBadly struct {
	metatest.Handle
	change func(*ledger.Payment)
}

func (s paysBadly) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	s.change(&r.Payment)
	return s.Handle.PayRead(ctx, r)
}

func (s paysBadly) Buy(ctx context.Context, p ledger.Purchase, idem *ledger.Idempotency) (ledger.Session, error) {
	s.change(&p.Payment)
	return s.Handle.Buy(ctx, p, idem)
}

// endsBadly changes outcomes.
type endsBadly struct {
	metatest.Handle
	change func(*ledger.Outcome)
}

func (s endsBadly) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	s.change(&o)
	return s.Handle.EndSubmission(ctx, channel, sequence, o)
}

type nothingElsewhere struct{ metatest.Handle }

func (s nothingElsewhere) Unsettled(ctx context.Context) (ledger.Unsettled, error) {
	u, err := s.Handle.Unsettled(ctx)
	u.Elsewhere = ledger.UnsettledSum{}
	return u, err
}

type forgetsForm struct{ metatest.Handle }

func (s forgetsForm) BeginSubmission(ctx context.Context, sub ledger.Submission) error {
	sub.Form = ""
	return s.Handle.BeginSubmission(ctx, sub)
}

type neverStops struct{ metatest.Handle }

func (neverStops) StopSelling(context.Context, string, int64, string) error { return nil }

// stopsLate does not look whether the submission is in flight.
type stopsLate struct {
	metatest.Handle
	path string
}

func (s stopsLate) StopSelling(ctx context.Context, channel string, _ int64, reason string) error {
	return query(ctx, s.path, `UPDATE channels SET stopped = $1 WHERE id = $2`, []byte(reason), []byte(channel))
}

// postponesBadly runs a statement instead.
type postponesBadly struct {
	metatest.Handle
	path, statement string
}

func (s postponesBadly) Postpone(ctx context.Context, channel string, sequence int64, due time.Time) error {
	if s.statement == "" {
		return nil
	}
	return query(ctx, s.path, s.statement+` AND $3 = $3`, due.UnixMicro(), []byte(channel), sequence)
}
