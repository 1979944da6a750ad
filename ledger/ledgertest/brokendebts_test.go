package ledgertest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/ledger"
)

// TestBrokenDebtsAreCaught breaks the handling of payments that expire, fail, or are collected by
// third parties.
// Invariants 167, 169, 171, 176, 179.
func TestBrokenDebtsAreCaught(t *testing.T) {
	nothing := func(ledger.Channel, time.Time, *ledger.Reading) {}
	catch(t, []dbtest.Mutant{
		{Name: "renews a payment that has not expired", Break: renewal(func(p *ledger.Offer) { p.Ahead += time.Minute }, ""), Caught: []string{"payments/renew", "submissions/renew"}},
		{Name: "does not ask the ledger for expired payments", Break: renewal(func(p *ledger.Offer) { p.Ahead = 0 }, ""), Caught: []string{"submissions/renew"}},
		{Name: "forgets a renewal", Break: renewal(nil, `DELETE FROM settlements WHERE channel = $1`), Caught: []string{"payments/renew", "submissions/renew"}},
		{Name: "sells for a renewal", Break: renewal(nil, `UPDATE channels SET credit = credit + accepted WHERE id = $1`), Caught: []string{"payments/renew"}},
		{Name: "sells after a renewal", Break: renewal(nil, `UPDATE channels SET stopped = NULL WHERE id = $1`), Caught: []string{"submissions/renew"}},
		{Name: "postpones a renewal", Break: renewal(nil, `UPDATE settlements SET due = expires WHERE channel = $1`), Caught: []string{"submissions/renew"}},
		{Name: "renews over a channel that is gone", Break: dbtest.Broken[renewsGone], Caught: []string{"submissions/renew"}},
		{Name: "takes a renewal as a payment", Break: dbtest.Broken[paysByRenewal], Caught: []string{"payments/renew"}},
		{Name: "offers no settlement that has expired", Break: dbtest.Broken[offersLive], Caught: []string{"settlements/list", "payments/renew", "model/payments"}},
		{Name: "opens a channel by a chain of the future", Break: dbtest.Broken[opensAhead], Caught: []string{"channels/ahead"}},
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
		{Name: "takes a new channel's withdrawals for the old one's", Break: outcome(func(o *ledger.Outcome) { o.Withdrawn = 0 }), Caught: []string{"channels/again"}},
		{Name: "extends no expired channel", Break: reading(func(before ledger.Channel, now time.Time, r *ledger.Reading) {
			if before.State(now) == ledger.ChannelExpired {
				r.ChainTime = time.Time{}
			}
		}, ""), Caught: []string{"channels/extended"}},
		{Name: "counts third parties' withdrawals as credit", Break: reading(nothing, `UPDATE channels SET credit = credit + settled - accepted
			WHERE id = $1 AND settled > accepted`), Caught: []string{"channels/elsewhere", "channels/restored"}},
		{Name: "counts third parties' withdrawals as collected", Break: reading(nothing, `UPDATE channels SET collected = collected + elsewhere, elsewhere = 0 WHERE id = $1`),
			Caught: []string{"channels/elsewhere", "payments/selling-limit", "model/submissions"}},
		{Name: "does not settle third parties' withdrawals", Break: reading(nothing, `UPDATE channels SET settled = collected, elsewhere = 0 WHERE id = $1`),
			Caught: []string{"channels/elsewhere", "channels/restored"}},
		{Name: "settles before it knows who has withdrawn", Break: reading(nothing, `UPDATE channels SET settled = withdrawn, elsewhere = withdrawn - collected WHERE id = $1 AND submitted > 0`),
			Caught: []string{"channels/in-flight", "model/submissions"}},
		{Name: "reports nothing as withdrawn elsewhere", Break: unsettled(func(u *ledger.Unsettled) { u.Elsewhere = ledger.UnsettledSum{} }), Caught: []string{"channels/elsewhere"}},
		{Name: "has no starting limit", Break: payment(func(p *ledger.Offer) { p.StartingLimit = 0 }), Caught: []string{"payments/selling-limit", "model/submissions"}},
		{Name: "has a starting limit only", Break: payment(func(p *ledger.Offer) {
			if p.StartingLimit > 0 {
				p.UnsettledLimit = p.StartingLimit
			}
		}), Caught: []string{"payments/selling-limit"}},
		{Name: "takes all forms for one", Break: payment(func(p *ledger.Offer) { p.Form = "f" }), Caught: []string{"payments/selling-limit"}},
		{Name: "takes each form for simulated", Break: payment(func(p *ledger.Offer) { p.Simulated = true }), Caught: []string{"payments/selling-limit", "model/submissions"}},
		{Name: "forgets the form of payments that it collects", Break: dbtest.Broken[forgetsForm], Caught: []string{"submissions/form", "model/submissions"}},
		{Name: "collects at the end of a long life", Break: payment(func(p *ledger.Offer) { p.SettleWithin = 0 }), Caught: []string{"submissions/within"}},
		{Name: "does not stop a strange channel", Break: outcome(func(o *ledger.Outcome) { o.Stop = "" }), Caught: []string{"submissions/stop"}},
		{Name: "sells for payments that a fullnode refuses", Break: dbtest.Broken[neverStops], Caught: []string{"submissions/stop-selling"}},
		{Name: "stops for a submission that has ended", Break: dbtest.Broken[stopsLate], Caught: []string{"submissions/stop-selling", "submissions/racing-stops"}},
		{Name: "sells after a deposit despite a debt", Break: dbtest.Broken[sellsForADeposit], Caught: []string{"submissions/grown-deposit"}},
		{Name: "postpones nothing", Break: postponement(``), Caught: []string{"submissions/postpone"}},
		{Name: "postpones a newer payment", Break: postponement(`UPDATE settlements SET due = $1 WHERE channel = $2 AND due IS NOT NULL`), Caught: []string{"submissions/postpone"}},
		{Name: "makes a settlement due that never is", Break: postponement(`UPDATE settlements SET due = $1 WHERE channel = $2 AND sequence = $3`), Caught: []string{"submissions/postpone"}},
	})
}

// renewal returns stores that change a renewal before it is stored, and run a statement for its
// channel afterwards.
func renewal(change func(*ledger.Offer), after string) func(dbtest.Correct) dbtest.Handle {
	return func(c dbtest.Correct) dbtest.Handle { return renewsBadly{c, change, after} }
}

// reading returns stores that change a reading before it is recorded, and run a statement for its
// channel afterwards.
func reading(change func(before ledger.Channel, now time.Time, r *ledger.Reading), after string) func(dbtest.Correct) dbtest.Handle {
	return func(c dbtest.Correct) dbtest.Handle { return readsBadly{c, change, after} }
}

// payment returns stores that change payments.
func payment(change func(*ledger.Offer)) func(dbtest.Correct) dbtest.Handle {
	return func(c dbtest.Correct) dbtest.Handle { return paysBadly{c, change} }
}

// outcome returns stores that change outcomes.
func outcome(change func(*ledger.Outcome)) func(dbtest.Correct) dbtest.Handle {
	return func(c dbtest.Correct) dbtest.Handle { return endsBadly{c, change} }
}

// postponement returns stores that run a statement instead of a postponement.
func postponement(statement string) func(dbtest.Correct) dbtest.Handle {
	return func(c dbtest.Correct) dbtest.Handle { return postponesBadly{c, statement} }
}

type renewsBadly struct {
	dbtest.Correct
	change func(*ledger.Offer)
	after  string
}

func (s renewsBadly) Renew(ctx context.Context, p ledger.Offer) (ledger.Channel, error) {
	if s.change != nil {
		s.change(&p)
	}
	c, err := s.Correct.Renew(ctx, p)
	if err == nil && s.after != "" {
		err = s.Exec(ctx, s.after, []byte(c.ID))
	}
	return c, err
}

// renewsGone ignores the deposit.
type renewsGone struct{ dbtest.Correct }

func (s renewsGone) Renew(ctx context.Context, p ledger.Offer) (ledger.Channel, error) {
	const set = `UPDATE channels SET deposit = $1 WHERE id = $2`
	c, err := s.FindChannel(ctx, p.Sender, p.Receiver, p.Asset, p.PaymentChannelID)
	if err == nil {
		err = s.Exec(ctx, set, max(c.Deposit, c.Accepted), []byte(c.ID))
	}
	if err != nil {
		return c, err
	}
	out, err := s.Correct.Renew(ctx, p)
	out.Deposit = c.Deposit
	return out, errors.Join(err, s.Exec(ctx, set, c.Deposit, []byte(c.ID)))
}

// paysByRenewal accepts another payment with the accepted amount as a renewal.
type paysByRenewal struct{ dbtest.Correct }

func (s paysByRenewal) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	c, err := s.Correct.PayRead(ctx, r)
	if errors.Is(err, ledger.ErrStalePayment) {
		if renewed, err := s.Renew(ctx, r.Offer); err == nil {
			return renewed, nil
		}
	}
	return c, err
}

type offersLive struct{ dbtest.Correct }

func (s offersLive) Settlements(ctx context.Context, after ledger.Settlement, limit int) ([]ledger.Settlement, error) {
	all, err := s.Correct.Settlements(ctx, after, limit)
	return slices.DeleteFunc(all, func(one ledger.Settlement) bool { return !one.Expires.After(s.Now()) }), err
}

type opensAhead struct{ dbtest.Correct }

func (s opensAhead) OpenChannel(ctx context.Context, c ledger.Channel, idem *database.Idempotency) (ledger.Channel, error) {
	if c.ChainTime.After(s.Now()) {
		c.ChainTime = s.Now()
	}
	return s.Correct.OpenChannel(ctx, c, idem)
}

type readsBadly struct {
	dbtest.Correct
	change func(before ledger.Channel, now time.Time, r *ledger.Reading)
	after  string
}

func (s readsBadly) RecordReading(ctx context.Context, id string, r ledger.Reading) (ledger.Channel, error) {
	before, err := s.Channel(ctx, id)
	if err != nil {
		return before, err
	}
	s.change(before, s.Now(), &r)
	c, err := s.Correct.RecordReading(ctx, id, r)
	if err != nil || s.after == "" {
		return c, err
	}
	if err := s.Exec(ctx, s.after, []byte(id)); err != nil {
		return c, err
	}
	c, err = s.Channel(ctx, id)
	c.Expired = 0
	return c, err
}

// sellsForADeposit lets a stopped channel sell as soon as its deposit has grown.
type sellsForADeposit struct{ dbtest.Correct }

func (s sellsForADeposit) RecordReading(ctx context.Context, id string, r ledger.Reading) (ledger.Channel, error) {
	before, err := s.Channel(ctx, id)
	if err != nil {
		return before, err
	}
	c, err := s.Correct.RecordReading(ctx, id, r)
	if err == nil && c.Deposit > before.Deposit && c.Deposit >= c.Accepted {
		c.Stopped, err = "", s.Exec(ctx, `UPDATE channels SET stopped = NULL WHERE id = $1`, []byte(id))
	}
	return c, err
}

type paysBadly struct {
	dbtest.Correct
	change func(*ledger.Offer)
}

func (s paysBadly) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	s.change(&r.Offer)
	return s.Correct.PayRead(ctx, r)
}

func (s paysBadly) Buy(ctx context.Context, p ledger.Purchase, idem *database.Idempotency) (ledger.Session, error) {
	s.change(&p.Offer)
	return s.Correct.Buy(ctx, p, idem)
}

type endsBadly struct {
	dbtest.Correct
	change func(*ledger.Outcome)
}

func (s endsBadly) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	s.change(&o)
	return s.Correct.EndSubmission(ctx, channel, sequence, o)
}

type forgetsForm struct{ dbtest.Correct }

func (s forgetsForm) BeginSubmission(ctx context.Context, sub ledger.Submission) error {
	sub.Form = ""
	return s.Correct.BeginSubmission(ctx, sub)
}

type neverStops struct{ dbtest.Correct }

func (neverStops) StopSelling(context.Context, string, int64, string) error { return nil }

// stopsLate does not look whether the submission is in flight.
type stopsLate struct{ dbtest.Correct }

func (s stopsLate) StopSelling(ctx context.Context, channel string, _ int64, reason string) error {
	return s.Exec(ctx, `UPDATE channels SET stopped = $1 WHERE id = $2`, []byte(reason), []byte(channel))
}

type postponesBadly struct {
	dbtest.Correct
	statement string
}

func (s postponesBadly) Postpone(ctx context.Context, channel string, sequence int64, due time.Time) error {
	if s.statement == "" {
		return nil
	}
	return s.Exec(ctx, s.statement+` AND $3 = $3`, due.UnixMicro(), []byte(channel), sequence)
}
