package metatest_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"sluice/database"
	"sluice/ledger"
	"sluice/metastore/metatest"
)

func TestBrokenPaymentsAreCaught(t *testing.T) {
	catch(t, []mutant{
		{"applies a payment twice on replay", func(h metatest.Handle, _ string) metatest.Handle { return appliesTwice{h} }, []string{"payments/replay", "payments/racing-replays"}},
		{"accepts a stale sequence", func(h metatest.Handle, _ string) metatest.Handle { return anySequence{h} }, []string{"payments/stale", "payments/first"}},
		{"forgets the credit", func(h metatest.Handle, path string) metatest.Handle { return forgetsCredit{h, path} }, []string{"payments/credit", "payments/buy"}},
		{"binds before refusing", func(h metatest.Handle, path string) metatest.Handle { return bindsFirst{h, path} }, []string{"payments/bind"}},
		{"returns twice", func(h metatest.Handle, _ string) metatest.Handle { return returnsTwice{h} }, []string{"sessions/return", "payments/return"}},
		{"charges n-1 for n", func(h metatest.Handle, _ string) metatest.Handle { return chargesLess{h} }, []string{"sessions/use-many", "sessions/racing-many"}},
		{"sells beyond the deposit", func(h metatest.Handle, path string) metatest.Handle { return sellsBeyond{h, path} }, []string{"payments/deposit"}},
		{"accepts payments over a closed channel", func(h metatest.Handle, path string) metatest.Handle { return staysOpen{h, path} }, []string{"payments/order", "payments/racing-close"}},
		{"forgets the settlement", func(h metatest.Handle, path string) metatest.Handle { return forgetsSettlement{h, path} }, []string{"settlements/list", "payments/read"}},
		{"returns a charge twice", func(h metatest.Handle, path string) metatest.Handle { return returnsChargeTwice{h, path} }, []string{"sessions/charge", "sessions/racing-charge-returns"}},
		{"returns a charge that was not made", func(h metatest.Handle, _ string) metatest.Handle { return returnsAnyCharge{h} }, []string{"sessions/charge"}},
		{"forgets the charges of others", func(h metatest.Handle, path string) metatest.Handle { return forgetsCharges{h, path} }, []string{"sessions/charge"}},
		{"returns a read twice", func(h metatest.Handle, path string) metatest.Handle { return returnsReadTwice{h, path} }, []string{"payments/return-read"}},
		{"pays out half of a list", func(h metatest.Handle, _ string) metatest.Handle { return paysOutHalf{h} }, []string{"settlements/pay-out", "settlements/racing-pay-outs"}},
		{"pays out what it can", func(h metatest.Handle, _ string) metatest.Handle { return paysOutEach{h} }, []string{"settlements/pay-out"}},
		{"pays out and forgets the newer", func(h metatest.Handle, path string) metatest.Handle { return forgetsNewer{h, path} }, []string{"settlements/pay-out", "settlements/pay-out-one"}},
		{"lowers what is settled", func(h metatest.Handle, path string) metatest.Handle { return lowersSettled{h, path} }, []string{"settlements/pay-out-one", "settlements/any-order"}},
		{"forgets a payout", func(h metatest.Handle, path string) metatest.Handle {
			return changesLedger{h, path, `DELETE FROM ledger`}
		}, []string{"settlements/any-order"}},
		{"records a payout again", func(h metatest.Handle, path string) metatest.Handle {
			return changesLedger{h, path, `UPDATE ledger SET at = at + 1`}
		}, []string{"settlements/any-order"}},
		{"pays out over any channel", func(h metatest.Handle, _ string) metatest.Handle { return paysOutAny{h} }, []string{"settlements/pay-out-one", "settlements/pay-out"}},
		{"pays out over open channels", func(h metatest.Handle, _ string) metatest.Handle { return paysOutOpen{h} }, []string{"settlements/pay-out-one"}},
		{"reports nothing as uncollected", func(h metatest.Handle, _ string) metatest.Handle { return allCollected{h} }, []string{"settlements/uncollected"}},
		{"finds nothing in an audit", func(h metatest.Handle, _ string) metatest.Handle { return blind{h} }, []string{"audit/withdrawn"}},
	})
}

// query changes a database without the store.
func query(ctx context.Context, path, text string, args ...any) error {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, text, args...)
	return errors.Join(err, db.Close())
}

// appliesTwice treats a replay as another payment of the same size.
type appliesTwice struct{ metatest.Handle }

func (s appliesTwice) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	out, err := s.Handle.PayRead(ctx, r)
	var stale *ledger.StaleError
	if errors.As(err, &stale) && string(stale.Stored) == string(r.Payment.Proof) {
		r.Payment.Sequence++
		r.Payment.Amount += r.Count * r.Price
		return s.Handle.PayRead(ctx, r)
	}
	return out, err
}

// anySequence compares only the amount.
type anySequence struct{ metatest.Handle }

func (s anySequence) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	c, err := s.FindChannel(ctx, r.Payment.Sender, r.Payment.Receiver, r.Payment.Asset, r.Payment.PaymentChannelID)
	if err == nil && r.Payment.Sequence <= c.Sequence && c.Sequence < 1<<63-1 {
		r.Payment.Sequence = c.Sequence + 1
	}
	return s.Handle.PayRead(ctx, r)
}

func (s anySequence) Buy(ctx context.Context, p ledger.Purchase, idem *ledger.Idempotency) (ledger.Session, error) {
	c, err := s.FindChannel(ctx, p.Payment.Sender, p.Payment.Receiver, p.Payment.Asset, p.Payment.PaymentChannelID)
	if err == nil && p.Payment.Sequence <= c.Sequence && c.Sequence < 1<<63-1 {
		p.Payment.Sequence = c.Sequence + 1
	}
	return s.Handle.Buy(ctx, p, idem)
}

type forgetsCredit struct {
	metatest.Handle
	path string
}

func (s forgetsCredit) Buy(ctx context.Context, p ledger.Purchase, idem *ledger.Idempotency) (ledger.Session, error) {
	out, err := s.Handle.Buy(ctx, p, idem)
	return out, errors.Join(err, query(ctx, s.path, `UPDATE channels SET credit = 0`))
}

// bindsFirst binds a channel to any sender who tries.
type bindsFirst struct {
	metatest.Handle
	path string
}

func (s bindsFirst) Buy(ctx context.Context, p ledger.Purchase, idem *ledger.Idempotency) (ledger.Session, error) {
	c, err := s.FindChannel(ctx, p.Payment.Sender, p.Payment.Receiver, p.Payment.Asset, p.Payment.PaymentChannelID)
	if err != nil {
		return ledger.Session{}, err
	}
	if err := query(ctx, s.path, `UPDATE channels SET sender = $1 WHERE id = $2`, []byte(p.Payment.Sender), []byte(c.ID)); err != nil {
		return ledger.Session{}, err
	}
	return s.Handle.Buy(ctx, p, idem)
}

// returnsTwice does not recognize a repeated request.
type returnsTwice struct{ metatest.Handle }

func (s returnsTwice) ReturnChunksets(ctx context.Context, id string, n int64, request string) (ledger.Session, error) {
	before, err := s.Session(ctx, id)
	if err != nil {
		return before, err
	}
	out, err := s.Handle.ReturnChunksets(ctx, id, n, request)
	if err == nil && out.Left == before.Left {
		return s.Handle.ReturnChunksets(ctx, id, n, request+"again")
	}
	return out, err
}

func (s returnsTwice) ReturnCredit(ctx context.Context, id string, count, price int64, request string) (ledger.Channel, error) {
	before, err := s.Channel(ctx, id)
	if err != nil {
		return before, err
	}
	out, err := s.Handle.ReturnCredit(ctx, id, count, price, request)
	if err == nil && out.Credit == before.Credit {
		return s.Handle.ReturnCredit(ctx, id, count, price, request+"again")
	}
	return out, err
}

type chargesLess struct{ metatest.Handle }

func (s chargesLess) UseSession(ctx context.Context, id string, n int64, idem *ledger.Idempotency) (ledger.Session, error) {
	return s.Handle.UseSession(ctx, id, max(n-1, min(n, 1)), idem)
}

// sellsBeyond sells what the deposit does not cover.
type sellsBeyond struct {
	metatest.Handle
	path string
}

func (s sellsBeyond) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	c, err := s.FindChannel(ctx, r.Payment.Sender, r.Payment.Receiver, r.Payment.Asset, r.Payment.PaymentChannelID)
	if err != nil {
		return c, err
	}
	const set = `UPDATE channels SET deposit = $1 WHERE id = $2`
	if err := query(ctx, s.path, set, int64(1<<63-1), []byte(c.ID)); err != nil {
		return c, err
	}
	out, err := s.Handle.PayRead(ctx, r)
	return out, errors.Join(err, query(ctx, s.path, set, c.Deposit, []byte(c.ID)))
}

// staysOpen records a close and continues to sell.
type staysOpen struct {
	metatest.Handle
	path string
}

func (s staysOpen) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	out, err := s.Handle.PayRead(ctx, r)
	if !errors.Is(err, ledger.ErrChannelClosed) {
		return out, err
	}
	if err := query(ctx, s.path, `UPDATE channels SET closed = NULL, expires = expires * 2`); err != nil {
		return out, err
	}
	return s.Handle.PayRead(ctx, r)
}

type forgetsSettlement struct {
	metatest.Handle
	path string
}

func (s forgetsSettlement) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	out, err := s.Handle.PayRead(ctx, r)
	return out, errors.Join(err, query(ctx, s.path, `DELETE FROM settlements`))
}

// returnsChargeTwice keeps a charge that it returned.
type returnsChargeTwice struct {
	metatest.Handle
	path string
}

func (s returnsChargeTwice) ReturnCharge(ctx context.Context, id, charge string) (ledger.Session, error) {
	if err := query(ctx, s.path, `CREATE TABLE IF NOT EXISTS kept AS SELECT id, charges FROM sessions WHERE charges <> x''`); err != nil {
		return ledger.Session{}, err
	}
	out, err := s.Handle.ReturnCharge(ctx, id, charge)
	return out, errors.Join(err,
		query(ctx, s.path, `UPDATE sessions SET charges = (SELECT k.charges FROM kept k WHERE k.id = sessions.id) WHERE id IN (SELECT id FROM kept)`),
		query(ctx, s.path, `DROP TABLE IF EXISTS kept`))
}

// returnsAnyCharge returns charges that were not made.
type returnsAnyCharge struct{ metatest.Handle }

func (s returnsAnyCharge) ReturnCharge(ctx context.Context, id, charge string) (ledger.Session, error) {
	before, err := s.Session(ctx, id)
	if err != nil {
		return before, err
	}
	out, err := s.Handle.ReturnCharge(ctx, id, charge)
	if err == nil && out.Left == before.Left && out.Used > 0 {
		return s.ReturnChunksets(ctx, id, 1, charge)
	}
	return out, err
}

// forgetsCharges keeps only the last charge.
type forgetsCharges struct {
	metatest.Handle
	path string
}

func (s forgetsCharges) ChargeSession(ctx context.Context, id string, n int64, charge string) (ledger.Session, error) {
	if err := query(ctx, s.path, `UPDATE sessions SET charges = NULL`); err != nil {
		return ledger.Session{}, err
	}
	return s.Handle.ChargeSession(ctx, id, n, charge)
}

// returnsReadTwice does not record what it returned.
type returnsReadTwice struct {
	metatest.Handle
	path string
}

func (s returnsReadTwice) ReturnRead(ctx context.Context, p ledger.Payment, charge string) (ledger.Channel, error) {
	if err := query(ctx, s.path, `CREATE TRIGGER IF NOT EXISTS keeps AFTER UPDATE OF charge ON sales WHEN NEW.charge IS NULL
		BEGIN UPDATE sales SET charge = OLD.charge WHERE id = NEW.id; END`); err != nil {
		return ledger.Channel{}, err
	}
	return s.Handle.ReturnRead(ctx, p, charge)
}

type paysOutHalf struct{ metatest.Handle }

func (s paysOutHalf) Book(ctx context.Context, list []ledger.Settlement) error {
	return s.Handle.Book(ctx, list[:len(list)/2])
}

// paysOutEach uses a transaction for each settlement.
type paysOutEach struct{ metatest.Handle }

func (s paysOutEach) Book(ctx context.Context, list []ledger.Settlement) error {
	var errs []error
	for _, one := range list {
		errs = append(errs, s.Handle.Book(ctx, []ledger.Settlement{one}))
	}
	return errors.Join(errs...)
}

// forgetsNewer removes whatever is pending.
type forgetsNewer struct {
	metatest.Handle
	path string
}

func (s forgetsNewer) Book(ctx context.Context, list []ledger.Settlement) error {
	err := s.Handle.Book(ctx, list)
	for _, one := range list {
		err = errors.Join(err, query(ctx, s.path, `DELETE FROM settlements WHERE channel = $1`, []byte(one.Channel)))
	}
	return err
}

// lowersSettled replaces the settled amount by the one of a late payout.
type lowersSettled struct {
	metatest.Handle
	path string
}

func (s lowersSettled) Book(ctx context.Context, list []ledger.Settlement) error {
	if err := s.Handle.Book(ctx, list); err != nil {
		return err
	}
	for _, one := range list {
		if err := query(ctx, s.path, `UPDATE channels SET settled = $1 WHERE id = $2`, one.Amount, []byte(one.Channel)); err != nil {
			return err
		}
	}
	return nil
}

// changesLedger runs a statement after each payout.
type changesLedger struct {
	metatest.Handle
	path, statement string
}

func (s changesLedger) Book(ctx context.Context, list []ledger.Settlement) error {
	return errors.Join(s.Handle.Book(ctx, list), query(ctx, s.path, s.statement))
}

// paysOutAny ignores settlements of unknown channels.
type paysOutAny struct{ metatest.Handle }

func (s paysOutAny) Book(ctx context.Context, list []ledger.Settlement) error {
	if err := s.Handle.Book(ctx, list); !errors.Is(err, database.ErrNotFound) {
		return err
	}
	return nil
}

// paysOutOpen pays nothing out over closed channels.
type paysOutOpen struct{ metatest.Handle }

func (s paysOutOpen) Book(ctx context.Context, list []ledger.Settlement) error {
	for _, one := range list {
		c, err := s.Channel(ctx, one.Channel)
		if err != nil {
			return err
		}
		if !c.Closed.IsZero() {
			return ledger.ErrChannelClosed
		}
	}
	return s.Handle.Book(ctx, list)
}

type allCollected struct{ metatest.Handle }

func (allCollected) Unsettled(context.Context) (ledger.Unsettled, error) {
	return ledger.Unsettled{}, nil
}

type blind struct{ metatest.Handle }

func (blind) Audit(context.Context) ([]string, error) { return nil, nil }
