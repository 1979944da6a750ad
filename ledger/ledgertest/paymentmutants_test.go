package ledgertest_test

import (
	"context"
	"errors"
	"testing"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/ledger"
)

func TestBrokenPaymentsAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "applies a payment twice on replay", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return appliesTwice{h} }, Caught: []string{"payments/replay", "payments/racing-replays"}},
		{Name: "accepts a stale sequence", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return anySequence{h} }, Caught: []string{"payments/stale", "payments/first"}},
		{Name: "forgets the credit", Break: func(h dbtest.Handle, path string) dbtest.Handle { return forgetsCredit{h, path} }, Caught: []string{"payments/credit", "payments/buy"}},
		{Name: "binds before refusing", Break: func(h dbtest.Handle, path string) dbtest.Handle { return bindsFirst{h, path} }, Caught: []string{"payments/bind"}},
		{Name: "returns twice", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return returnsTwice{h} }, Caught: []string{"sessions/return", "payments/return"}},
		{Name: "charges n-1 for n", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return chargesLess{h} }, Caught: []string{"sessions/use-many", "sessions/racing-many"}},
		{Name: "sells beyond the deposit", Break: func(h dbtest.Handle, path string) dbtest.Handle { return sellsBeyond{h, path} }, Caught: []string{"payments/deposit"}},
		{Name: "accepts payments over a closed channel", Break: func(h dbtest.Handle, path string) dbtest.Handle { return staysOpen{h, path} }, Caught: []string{"payments/order", "payments/racing-close"}},
		{Name: "forgets the settlement", Break: func(h dbtest.Handle, path string) dbtest.Handle { return forgetsSettlement{h, path} }, Caught: []string{"settlements/list", "payments/read"}},
		{Name: "returns a charge twice", Break: func(h dbtest.Handle, path string) dbtest.Handle { return returnsChargeTwice{h, path} }, Caught: []string{"sessions/charge", "sessions/racing-charge-returns"}},
		{Name: "returns a charge that was not made", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return returnsAnyCharge{h} }, Caught: []string{"sessions/charge"}},
		{Name: "forgets the charges of others", Break: func(h dbtest.Handle, path string) dbtest.Handle { return forgetsCharges{h, path} }, Caught: []string{"sessions/charge"}},
		{Name: "returns a read twice", Break: func(h dbtest.Handle, path string) dbtest.Handle { return returnsReadTwice{h, path} }, Caught: []string{"payments/return-read"}},
		{Name: "books half of a list", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return booksHalf{h} }, Caught: []string{"settlements/pay-out", "settlements/racing-pay-outs"}},
		{Name: "books what it can", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return booksEach{h} }, Caught: []string{"settlements/pay-out"}},
		{Name: "books and forgets the newer", Break: func(h dbtest.Handle, path string) dbtest.Handle { return forgetsNewer{h, path} }, Caught: []string{"settlements/pay-out", "settlements/pay-out-one"}},
		{Name: "lowers what is settled", Break: func(h dbtest.Handle, path string) dbtest.Handle { return lowersSettled{h, path} }, Caught: []string{"settlements/pay-out-one", "settlements/any-order"}},
		{Name: "forgets what was booked", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return changesLedger{h, path, `DELETE FROM ledger`}
		}, Caught: []string{"settlements/any-order"}},
		{Name: "books again", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return changesLedger{h, path, `UPDATE ledger SET at = at + 1`}
		}, Caught: []string{"settlements/any-order"}},
		{Name: "books over any channel", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return booksAny{h} }, Caught: []string{"settlements/pay-out-one", "settlements/pay-out"}},
		{Name: "books over open channels", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return booksOpen{h} }, Caught: []string{"settlements/pay-out-one"}},
		{Name: "reports nothing as uncollected", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return allCollected{h} }, Caught: []string{"settlements/uncollected"}},
		{Name: "finds nothing in an audit", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return blind{h} }, Caught: []string{"audit/withdrawn"}},
	})
}

// appliesTwice treats a replay as another payment as large.
type appliesTwice struct{ dbtest.Handle }

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
type anySequence struct{ dbtest.Handle }

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
	dbtest.Handle
	path string
}

func (s forgetsCredit) Buy(ctx context.Context, p ledger.Purchase, idem *ledger.Idempotency) (ledger.Session, error) {
	out, err := s.Handle.Buy(ctx, p, idem)
	return out, errors.Join(err, dbtest.Query(ctx, s.path, `UPDATE channels SET credit = 0`))
}

// bindsFirst binds a channel to any sender who tries.
type bindsFirst struct {
	dbtest.Handle
	path string
}

func (s bindsFirst) Buy(ctx context.Context, p ledger.Purchase, idem *ledger.Idempotency) (ledger.Session, error) {
	c, err := s.FindChannel(ctx, p.Payment.Sender, p.Payment.Receiver, p.Payment.Asset, p.Payment.PaymentChannelID)
	if err != nil {
		return ledger.Session{}, err
	}
	if err := dbtest.Query(ctx, s.path, `UPDATE channels SET sender = $1 WHERE id = $2`, []byte(p.Payment.Sender), []byte(c.ID)); err != nil {
		return ledger.Session{}, err
	}
	return s.Handle.Buy(ctx, p, idem)
}

// returnsTwice does not recognize a repeated request.
type returnsTwice struct{ dbtest.Handle }

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

type chargesLess struct{ dbtest.Handle }

func (s chargesLess) UseSession(ctx context.Context, id string, n int64, idem *ledger.Idempotency) (ledger.Session, error) {
	return s.Handle.UseSession(ctx, id, max(n-1, min(n, 1)), idem)
}

// sellsBeyond sells what the deposit does not cover.
type sellsBeyond struct {
	dbtest.Handle
	path string
}

func (s sellsBeyond) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	c, err := s.FindChannel(ctx, r.Payment.Sender, r.Payment.Receiver, r.Payment.Asset, r.Payment.PaymentChannelID)
	if err != nil {
		return c, err
	}
	const set = `UPDATE channels SET deposit = $1 WHERE id = $2`
	if err := dbtest.Query(ctx, s.path, set, int64(1<<63-1), []byte(c.ID)); err != nil {
		return c, err
	}
	out, err := s.Handle.PayRead(ctx, r)
	return out, errors.Join(err, dbtest.Query(ctx, s.path, set, c.Deposit, []byte(c.ID)))
}

// staysOpen records a close and continues to sell.
type staysOpen struct {
	dbtest.Handle
	path string
}

func (s staysOpen) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	out, err := s.Handle.PayRead(ctx, r)
	if !errors.Is(err, ledger.ErrChannelClosed) {
		return out, err
	}
	if err := dbtest.Query(ctx, s.path, `UPDATE channels SET closed = NULL, expires = expires * 2`); err != nil {
		return out, err
	}
	return s.Handle.PayRead(ctx, r)
}

type forgetsSettlement struct {
	dbtest.Handle
	path string
}

func (s forgetsSettlement) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	out, err := s.Handle.PayRead(ctx, r)
	return out, errors.Join(err, dbtest.Query(ctx, s.path, `DELETE FROM settlements`))
}

// returnsChargeTwice keeps a charge that it returned.
type returnsChargeTwice struct {
	dbtest.Handle
	path string
}

func (s returnsChargeTwice) ReturnCharge(ctx context.Context, id, charge string) (ledger.Session, error) {
	if err := dbtest.Query(ctx, s.path, `CREATE TABLE IF NOT EXISTS kept AS SELECT id, charges FROM sessions WHERE charges <> x''`); err != nil {
		return ledger.Session{}, err
	}
	out, err := s.Handle.ReturnCharge(ctx, id, charge)
	return out, errors.Join(err,
		dbtest.Query(ctx, s.path, `UPDATE sessions SET charges = (SELECT k.charges FROM kept k WHERE k.id = sessions.id) WHERE id IN (SELECT id FROM kept)`),
		dbtest.Query(ctx, s.path, `DROP TABLE IF EXISTS kept`))
}

// returnsAnyCharge returns charges that were not made.
type returnsAnyCharge struct{ dbtest.Handle }

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
	dbtest.Handle
	path string
}

func (s forgetsCharges) ChargeSession(ctx context.Context, id string, n int64, charge string) (ledger.Session, error) {
	if err := dbtest.Query(ctx, s.path, `UPDATE sessions SET charges = NULL`); err != nil {
		return ledger.Session{}, err
	}
	return s.Handle.ChargeSession(ctx, id, n, charge)
}

// returnsReadTwice does not record what it returned.
type returnsReadTwice struct {
	dbtest.Handle
	path string
}

func (s returnsReadTwice) ReturnRead(ctx context.Context, p ledger.Payment, charge string) (ledger.Channel, error) {
	if err := dbtest.Query(ctx, s.path, `CREATE TRIGGER IF NOT EXISTS keeps AFTER UPDATE OF charge ON sales WHEN NEW.charge IS NULL
		BEGIN UPDATE sales SET charge = OLD.charge WHERE id = NEW.id; END`); err != nil {
		return ledger.Channel{}, err
	}
	return s.Handle.ReturnRead(ctx, p, charge)
}

type booksHalf struct{ dbtest.Handle }

func (s booksHalf) Book(ctx context.Context, list []ledger.Settlement) error {
	return s.Handle.Book(ctx, list[:len(list)/2])
}

// booksEach uses a transaction for each settlement.
type booksEach struct{ dbtest.Handle }

func (s booksEach) Book(ctx context.Context, list []ledger.Settlement) error {
	var errs []error
	for _, one := range list {
		errs = append(errs, s.Handle.Book(ctx, []ledger.Settlement{one}))
	}
	return errors.Join(errs...)
}

// forgetsNewer removes whatever is pending.
type forgetsNewer struct {
	dbtest.Handle
	path string
}

func (s forgetsNewer) Book(ctx context.Context, list []ledger.Settlement) error {
	err := s.Handle.Book(ctx, list)
	for _, one := range list {
		err = errors.Join(err, dbtest.Query(ctx, s.path, `DELETE FROM settlements WHERE channel = $1`, []byte(one.Channel)))
	}
	return err
}

// lowersSettled replaces the settled amount by a late booking.
type lowersSettled struct {
	dbtest.Handle
	path string
}

func (s lowersSettled) Book(ctx context.Context, list []ledger.Settlement) error {
	if err := s.Handle.Book(ctx, list); err != nil {
		return err
	}
	for _, one := range list {
		if err := dbtest.Query(ctx, s.path, `UPDATE channels SET settled = $1 WHERE id = $2`, one.Amount, []byte(one.Channel)); err != nil {
			return err
		}
	}
	return nil
}

// changesLedger runs a statement after each booking.
type changesLedger struct {
	dbtest.Handle
	path, statement string
}

func (s changesLedger) Book(ctx context.Context, list []ledger.Settlement) error {
	return errors.Join(s.Handle.Book(ctx, list), dbtest.Query(ctx, s.path, s.statement))
}

// booksAny ignores settlements of unknown channels.
type booksAny struct{ dbtest.Handle }

func (s booksAny) Book(ctx context.Context, list []ledger.Settlement) error {
	if err := s.Handle.Book(ctx, list); !errors.Is(err, database.ErrNotFound) {
		return err
	}
	return nil
}

// booksOpen books nothing over closed channels.
type booksOpen struct{ dbtest.Handle }

func (s booksOpen) Book(ctx context.Context, list []ledger.Settlement) error {
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

type allCollected struct{ dbtest.Handle }

func (allCollected) Unsettled(context.Context) (ledger.Unsettled, error) {
	return ledger.Unsettled{}, nil
}

type blind struct{ dbtest.Handle }

func (blind) Audit(context.Context) ([]string, error) { return nil, nil }
