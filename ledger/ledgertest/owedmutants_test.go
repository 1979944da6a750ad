package ledgertest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/database/dbtest"
	"sluice/ledger"
)

// TestBrokenDebtsAreCaught breaks what becomes of payments that expire, fail, or are collected by
// others.
func TestBrokenDebtsAreCaught(t *testing.T) {
	renewal := func(change func(*ledger.Payment), after string) func(dbtest.Handle, string) dbtest.Handle {
		return func(h dbtest.Handle, path string) dbtest.Handle { return renewsBadly{h, path, change, after} }
	}
	reading := func(change func(before ledger.Channel, now time.Time, r *ledger.Reading), after string) func(dbtest.Handle, string) dbtest.Handle {
		return func(h dbtest.Handle, path string) dbtest.Handle { return readsBadly{h, path, change, after} }
	}
	payment := func(change func(*ledger.Payment)) func(dbtest.Handle, string) dbtest.Handle {
		return func(h dbtest.Handle, _ string) dbtest.Handle { return paysBadly{h, change} }
	}
	outcome := func(change func(*ledger.Outcome)) func(dbtest.Handle, string) dbtest.Handle {
		return func(h dbtest.Handle, _ string) dbtest.Handle { return endsBadly{h, change} }
	}
	nothing := func(ledger.Channel, time.Time, *ledger.Reading) {}
	catch(t, []dbtest.Mutant{
		{Name: "renews what has not expired", Break: renewal(func(p *ledger.Payment) { p.Ahead += time.Minute }, ""), Caught: []string{"payments/renew", "submissions/renew"}},
		{Name: "does not ask the ledger what has expired", Break: renewal(func(p *ledger.Payment) { p.Ahead = 0 }, ""), Caught: []string{"submissions/renew"}},
		{Name: "forgets a renewal", Break: renewal(nil, `DELETE FROM settlements WHERE channel = $1`), Caught: []string{"payments/renew", "submissions/renew"}},
		{Name: "sells for a renewal", Break: renewal(nil, `UPDATE channels SET credit = credit + accepted WHERE id = $1`), Caught: []string{"payments/renew"}},
		{Name: "sells after a renewal", Break: renewal(nil, `UPDATE channels SET stopped = NULL WHERE id = $1`), Caught: []string{"submissions/renew"}},
		{Name: "postpones a renewal", Break: renewal(nil, `UPDATE settlements SET due = expires WHERE channel = $1`), Caught: []string{"submissions/renew"}},
		{Name: "renews over a channel that is gone", Break: func(h dbtest.Handle, path string) dbtest.Handle { return renewsGone{h, path} }, Caught: []string{"submissions/renew"}},
		{Name: "takes a renewal as a payment", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return paysByRenewal{h} }, Caught: []string{"payments/renew"}},
		{Name: "offers no settlement that has expired", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return offersLive{h} }, Caught: []string{"settlements/list", "payments/renew", "model/payments"}},
		{Name: "opens a channel by a chain of the future", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return opensAhead{h} }, Caught: []string{"channels/ahead"}},
		{Name: "believes a ledger of the future", Break: reading(func(_ ledger.Channel, now time.Time, r *ledger.Reading) {
			if r.ChainTime.After(now) {
				r.ChainTime = now
			}
		}, ""), Caught: []string{"channels/ahead", "model/submissions"}},
		{Name: "keeps a ledger of the future", Break: reading(func(before ledger.Channel, now time.Time, r *ledger.Reading) {
			if before.ChainTime.After(now.Add(ledger.MaxChainAhead)) {
				r.ChainTime = time.Time{}
			}
		}, ""), Caught: []string{"channels/ahead"}},
		{Name: "ends by a ledger of the future", Break: outcome(func(o *ledger.Outcome) {
			if o.Withdrawn > 0 {
				o.Reading.ChainTime = o.Reading.ChainTime.Add(-24 * time.Hour)
			}
		}), Caught: []string{"channels/ahead"}},
		{Name: "takes a fullnode that is behind for a new channel", Break: reading(func(_ ledger.Channel, _ time.Time, r *ledger.Reading) { r.Created = time.Time{} }, ""),
			Caught: []string{"channels/behind", "model/submissions"}},
		{Name: "takes a new channel for the old one", Break: reading(func(before ledger.Channel, _ time.Time, r *ledger.Reading) {
			r.Created, r.Withdrawn = before.ChainCreated, max(r.Withdrawn, before.Withdrawn)
		}, ""), Caught: []string{"channels/again", "model/submissions"}},
		{Name: "believes what a new channel shows about the old one", Break: outcome(func(o *ledger.Outcome) { o.Withdrawn = 0 }), Caught: []string{"channels/again"}},
		{Name: "extends no expired channel", Break: reading(func(before ledger.Channel, now time.Time, r *ledger.Reading) {
			if before.State(now) == ledger.ChannelExpired {
				r.ChainTime = time.Time{}
			}
		}, ""), Caught: []string{"channels/extended"}},
		{Name: "counts as credit what others have withdrawn", Break: reading(nothing, `UPDATE channels SET credit = credit + accepted - sequence, folded = folded - accepted + sequence
			WHERE id = $1 AND proof IS NULL AND accepted > sequence`), Caught: []string{"channels/elsewhere", "channels/restored"}},
		{Name: "counts as collected what others have withdrawn", Break: reading(nothing, `UPDATE channels SET collected = collected + elsewhere, elsewhere = 0 WHERE id = $1`),
			Caught: []string{"channels/elsewhere", "payments/selling-limit", "model/submissions"}},
		{Name: "settles nothing that others have withdrawn", Break: reading(nothing, `UPDATE channels SET settled = collected, elsewhere = 0 WHERE id = $1`),
			Caught: []string{"channels/elsewhere", "channels/restored"}},
		{Name: "settles before it knows who has withdrawn", Break: reading(nothing, `UPDATE channels SET settled = withdrawn, elsewhere = withdrawn - collected WHERE id = $1 AND submitted > 0`),
			Caught: []string{"channels/in-flight", "model/submissions"}},
		{Name: "reports nothing as withdrawn elsewhere", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return nothingElsewhere{h} }, Caught: []string{"channels/elsewhere"}},
		{Name: "has no starting limit", Break: payment(func(p *ledger.Payment) { p.StartingLimit = 0 }), Caught: []string{"payments/selling-limit", "model/submissions"}},
		{Name: "has a starting limit only", Break: payment(func(p *ledger.Payment) {
			if p.StartingLimit > 0 {
				p.UnsettledLimit = p.StartingLimit
			}
		}), Caught: []string{"payments/selling-limit"}},
		{Name: "takes all forms for one", Break: payment(func(p *ledger.Payment) { p.Form = "f" }), Caught: []string{"payments/selling-limit"}},
		{Name: "takes each form for simulated", Break: payment(func(p *ledger.Payment) { p.Simulated = true }), Caught: []string{"payments/selling-limit", "model/submissions"}},
		{Name: "forgets the form of what it collects", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return forgetsForm{h} }, Caught: []string{"submissions/form", "model/submissions"}},
		{Name: "collects at the end of a long life", Break: payment(func(p *ledger.Payment) { p.SettleWithin = 0 }), Caught: []string{"submissions/within"}},
		{Name: "does not stop what is strange", Break: outcome(func(o *ledger.Outcome) { o.Stop = "" }), Caught: []string{"submissions/stop"}},
		{Name: "sells what a fullnode refuses", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return neverStops{h} }, Caught: []string{"submissions/stop-selling"}},
		{Name: "stops what has ended", Break: func(h dbtest.Handle, path string) dbtest.Handle { return stopsLate{h, path} }, Caught: []string{"submissions/stop-selling", "submissions/racing-stops"}},
		{Name: "sells for a deposit what is owed", Break: func(h dbtest.Handle, path string) dbtest.Handle { return sellsForADeposit{h, path} }, Caught: []string{"submissions/grown-deposit"}},
		{Name: "postpones nothing", Break: func(h dbtest.Handle, path string) dbtest.Handle { return postponesBadly{h, path, ``} }, Caught: []string{"submissions/postpone"}},
		{Name: "postpones a newer payment", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return postponesBadly{h, path, `UPDATE settlements SET due = $1 WHERE channel = $2 AND due IS NOT NULL`}
		}, Caught: []string{"submissions/postpone"}},
		{Name: "makes due what never is", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return postponesBadly{h, path, `UPDATE settlements SET due = $1 WHERE channel = $2 AND sequence = $3`}
		}, Caught: []string{"submissions/postpone"}},
	})
}

// renewsBadly changes a renewal before it is stored, and runs a statement for its channel
// afterwards.
type renewsBadly struct {
	dbtest.Handle
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
		err = dbtest.Query(ctx, s.path, s.after, []byte(c.ID))
	}
	return c, err
}

// renewsGone ignores the deposit.
type renewsGone struct {
	dbtest.Handle
	path string
}

func (s renewsGone) Renew(ctx context.Context, p ledger.Payment) (ledger.Channel, error) {
	const set = `UPDATE channels SET deposit = $1 WHERE id = $2`
	c, err := s.FindChannel(ctx, p.Sender, p.Receiver, p.Asset, p.PaymentChannelID)
	if err == nil {
		err = dbtest.Query(ctx, s.path, set, max(c.Deposit, c.Accepted), []byte(c.ID))
	}
	if err != nil {
		return c, err
	}
	out, err := s.Handle.Renew(ctx, p)
	out.Deposit = c.Deposit
	return out, errors.Join(err, dbtest.Query(ctx, s.path, set, c.Deposit, []byte(c.ID)))
}

// paysByRenewal accepts another payment with the accepted amount as a renewal.
type paysByRenewal struct{ dbtest.Handle }

func (s paysByRenewal) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	c, err := s.Handle.PayRead(ctx, r)
	if errors.Is(err, ledger.ErrStalePayment) {
		if renewed, err := s.Renew(ctx, r.Payment); err == nil {
			return renewed, nil
		}
	}
	return c, err
}

type offersLive struct{ dbtest.Handle }

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

type opensAhead struct{ dbtest.Handle }

func (s opensAhead) OpenChannel(ctx context.Context, c ledger.Channel, idem *ledger.Idempotency) (ledger.Channel, error) {
	if c.ChainTime.After(s.Now()) {
		c.ChainTime = s.Now()
	}
	return s.Handle.OpenChannel(ctx, c, idem)
}

// readsBadly changes a reading before it is recorded, and runs a statement for its channel
// afterwards.
type readsBadly struct {
	dbtest.Handle
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
	if err := dbtest.Query(ctx, s.path, s.after, []byte(id)); err != nil {
		return c, err
	}
	c, err = s.Channel(ctx, id)
	c.Expired = 0
	return c, err
}

// sellsForADeposit lets a stopped channel sell as soon as its deposit has grown.
type sellsForADeposit struct {
	dbtest.Handle
	path string
}

func (s sellsForADeposit) RecordReading(ctx context.Context, id string, r ledger.Reading) (ledger.Channel, error) {
	before, err := s.Channel(ctx, id)
	if err != nil {
		return before, err
	}
	c, err := s.Handle.RecordReading(ctx, id, r)
	if err == nil && c.Deposit > before.Deposit && c.Deposit >= c.Accepted {
		c.Stopped, err = "", dbtest.Query(ctx, s.path, `UPDATE channels SET stopped = NULL WHERE id = $1`, []byte(id))
	}
	return c, err
}

// paysBadly changes payments.
type paysBadly struct {
	dbtest.Handle
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
	dbtest.Handle
	change func(*ledger.Outcome)
}

func (s endsBadly) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	s.change(&o)
	return s.Handle.EndSubmission(ctx, channel, sequence, o)
}

type nothingElsewhere struct{ dbtest.Handle }

func (s nothingElsewhere) Unsettled(ctx context.Context) (ledger.Unsettled, error) {
	u, err := s.Handle.Unsettled(ctx)
	u.Elsewhere = ledger.UnsettledSum{}
	return u, err
}

type forgetsForm struct{ dbtest.Handle }

func (s forgetsForm) BeginSubmission(ctx context.Context, sub ledger.Submission) error {
	sub.Form = ""
	return s.Handle.BeginSubmission(ctx, sub)
}

type neverStops struct{ dbtest.Handle }

func (neverStops) StopSelling(context.Context, string, int64, string) error { return nil }

// stopsLate does not look whether the submission is in flight.
type stopsLate struct {
	dbtest.Handle
	path string
}

func (s stopsLate) StopSelling(ctx context.Context, channel string, _ int64, reason string) error {
	return dbtest.Query(ctx, s.path, `UPDATE channels SET stopped = $1 WHERE id = $2`, []byte(reason), []byte(channel))
}

// postponesBadly runs a statement instead.
type postponesBadly struct {
	dbtest.Handle
	path, statement string
}

func (s postponesBadly) Postpone(ctx context.Context, channel string, sequence int64, due time.Time) error {
	if s.statement == "" {
		return nil
	}
	return dbtest.Query(ctx, s.path, s.statement+` AND $3 = $3`, due.UnixMicro(), []byte(channel), sequence)
}
