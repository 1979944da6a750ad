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
		{Name: "applies a payment twice on replay", Break: dbtest.Broken[appliesTwice], Caught: []string{"payments/replay", "payments/racing-replays"}},
		{Name: "accepts a stale sequence", Break: dbtest.Broken[anySequence], Caught: []string{"payments/stale", "payments/first"}},
		{Name: "forgets the credit", Schema: dbtest.On(`AFTER UPDATE OF credit ON channels`, `UPDATE channels SET credit = 0`), Caught: []string{"payments/credit", "payments/buy"}},
		{Name: "binds before refusing", Break: dbtest.Broken[bindsFirst], Caught: []string{"payments/bind"}},
		{Name: "returns twice", Break: dbtest.Broken[returnsTwice], Caught: []string{"sessions/return", "payments/return"}},
		{Name: "charges n-1 for n", Break: dbtest.Broken[chargesLess], Caught: []string{"sessions/use-many", "sessions/racing-many"}},
		{Name: "sells beyond the deposit", Break: dbtest.Broken[sellsBeyond], Caught: []string{"payments/deposit"}},
		{Name: "accepts payments over a closed channel", Break: dbtest.Broken[staysOpen], Caught: []string{"payments/order", "payments/racing-close"}},
		{Name: "forgets the settlement", Schema: dbtest.On(`AFTER INSERT ON settlements`, `DELETE FROM settlements`), Caught: []string{"settlements/list", "payments/read"}},
		{Name: "returns a charge twice", Schema: dbtest.On(`AFTER UPDATE OF charges ON session_terms WHEN COALESCE(length(NEW.charges), 0) < length(OLD.charges)`, `UPDATE session_terms SET charges = OLD.charges WHERE id = NEW.id`), Caught: []string{"sessions/charge", "sessions/racing-charge-returns"}},
		{Name: "returns a charge that was not made", Break: dbtest.Broken[returnsAnyCharge], Caught: []string{"sessions/charge"}},
		{Name: "forgets other sessions' charges", Break: dbtest.Broken[forgetsCharges], Caught: []string{"sessions/charge"}},
		{Name: "returns a read twice", Schema: dbtest.On(`AFTER UPDATE OF charge ON sales WHEN NEW.charge IS NULL`, `UPDATE sales SET charge = OLD.charge WHERE id = NEW.id`), Caught: []string{"payments/return-read"}},
		{Name: "books half of a list", Break: dbtest.Broken[booksHalf], Caught: []string{"settlements/pay-out", "settlements/racing-pay-outs"}},
		{Name: "books a part of a batch", Break: dbtest.Broken[booksEach], Caught: []string{"settlements/pay-out"}},
		{Name: "books and forgets the newer", Schema: dbtest.On(`AFTER INSERT ON ledger`, `DELETE FROM settlements WHERE channel = NEW.channel`), Caught: []string{"settlements/pay-out", "settlements/pay-out-one"}},
		{Name: "lowers the settled amount", Break: dbtest.Broken[lowersSettled], Caught: []string{"settlements/pay-out-one", "settlements/any-order"}},
		{Name: "forgets bookings", Schema: dbtest.On(`AFTER INSERT ON ledger`, `DELETE FROM ledger`), Caught: []string{"settlements/any-order"}},
		{Name: "books again", Schema: dbtest.On(`BEFORE INSERT ON ledger`, `UPDATE ledger SET at = at + 1`), Caught: []string{"settlements/any-order"}},
		{Name: "books over any channel", Break: dbtest.Broken[booksAny], Caught: []string{"settlements/pay-out-one", "settlements/pay-out"}},
		{Name: "books over open channels", Break: dbtest.Broken[booksOpen], Caught: []string{"settlements/pay-out-one"}},
		{Name: "reports nothing as uncollected", Break: unsettled(func(u *ledger.Unsettled) { *u = ledger.Unsettled{} }), Caught: []string{"settlements/uncollected"}},
		{Name: "finds nothing in an audit", Break: dbtest.Broken[blind], Caught: []string{"audit/withdrawn"}},
	})
}

// unsettled returns stores that report wrong unsettled amounts.
func unsettled(change func(*ledger.Unsettled)) func(dbtest.Correct) dbtest.Handle {
	return func(c dbtest.Correct) dbtest.Handle { return countsBadly{c, change} }
}

type countsBadly struct {
	dbtest.Correct
	change func(*ledger.Unsettled)
}

func (s countsBadly) Unsettled(ctx context.Context) (ledger.Unsettled, error) {
	u, err := s.Correct.Unsettled(ctx)
	s.change(&u)
	return u, err
}

// appliesTwice treats a replay as another payment as large.
type appliesTwice struct{ dbtest.Correct }

func (s appliesTwice) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	out, err := s.Correct.PayRead(ctx, r)
	var stale *ledger.StaleError
	if errors.As(err, &stale) && string(stale.Stored) == string(r.Offer.Proof) {
		r.Offer.Sequence++
		r.Offer.Amount += r.Count * r.Price
		return s.Correct.PayRead(ctx, r)
	}
	return out, err
}

// anySequence compares only the amount.
type anySequence struct{ dbtest.Correct }

func (s anySequence) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	c, err := s.FindChannel(ctx, r.Offer.Sender, r.Offer.Receiver, r.Offer.Asset, r.Offer.PaymentChannelID)
	if err == nil && r.Offer.Sequence <= c.Sequence && c.Sequence < 1<<63-1 {
		r.Offer.Sequence = c.Sequence + 1
	}
	return s.Correct.PayRead(ctx, r)
}

func (s anySequence) Buy(ctx context.Context, p ledger.Purchase, idem *database.Idempotency) (ledger.Session, error) {
	c, err := s.FindChannel(ctx, p.Offer.Sender, p.Offer.Receiver, p.Offer.Asset, p.Offer.PaymentChannelID)
	if err == nil && p.Offer.Sequence <= c.Sequence && c.Sequence < 1<<63-1 {
		p.Offer.Sequence = c.Sequence + 1
	}
	return s.Correct.Buy(ctx, p, idem)
}

// bindsFirst binds a channel to any sender who tries.
type bindsFirst struct{ dbtest.Correct }

func (s bindsFirst) Buy(ctx context.Context, p ledger.Purchase, idem *database.Idempotency) (ledger.Session, error) {
	c, err := s.FindChannel(ctx, p.Offer.Sender, p.Offer.Receiver, p.Offer.Asset, p.Offer.PaymentChannelID)
	if err != nil {
		return ledger.Session{}, err
	}
	if err := s.Exec(ctx, `UPDATE channels SET sender = $1 WHERE id = $2`, []byte(p.Offer.Sender), []byte(c.ID)); err != nil {
		return ledger.Session{}, err
	}
	return s.Correct.Buy(ctx, p, idem)
}

// returnsTwice does not recognize a repeated request.
type returnsTwice struct{ dbtest.Correct }

func (s returnsTwice) ReturnChunksets(ctx context.Context, id string, n int64, request string) (ledger.Session, error) {
	before, err := s.Session(ctx, id)
	if err != nil {
		return before, err
	}
	out, err := s.Correct.ReturnChunksets(ctx, id, n, request)
	if err == nil && out.Left == before.Left {
		return s.Correct.ReturnChunksets(ctx, id, n, request+"again")
	}
	return out, err
}

func (s returnsTwice) ReturnCredit(ctx context.Context, id string, count, price int64, request string) (ledger.Channel, error) {
	before, err := s.Channel(ctx, id)
	if err != nil {
		return before, err
	}
	out, err := s.Correct.ReturnCredit(ctx, id, count, price, request)
	if err == nil && out.Credit == before.Credit {
		return s.Correct.ReturnCredit(ctx, id, count, price, request+"again")
	}
	return out, err
}

type chargesLess struct{ dbtest.Correct }

func (s chargesLess) UseSession(ctx context.Context, id string, n int64, idem *database.Idempotency) (ledger.Session, error) {
	return s.Correct.UseSession(ctx, id, max(n-1, min(n, 1)), idem)
}

// sellsBeyond sells more than the deposit covers.
type sellsBeyond struct{ dbtest.Correct }

func (s sellsBeyond) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	c, err := s.FindChannel(ctx, r.Offer.Sender, r.Offer.Receiver, r.Offer.Asset, r.Offer.PaymentChannelID)
	if err != nil {
		return c, err
	}
	const set = `UPDATE channels SET deposit = $1 WHERE id = $2`
	if err := s.Exec(ctx, set, int64(1<<63-1), []byte(c.ID)); err != nil {
		return c, err
	}
	out, err := s.Correct.PayRead(ctx, r)
	return out, errors.Join(err, s.Exec(ctx, set, c.Deposit, []byte(c.ID)))
}

// staysOpen records a close and continues to sell.
type staysOpen struct{ dbtest.Correct }

func (s staysOpen) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	out, err := s.Correct.PayRead(ctx, r)
	if !errors.Is(err, ledger.ErrChannelClosed) {
		return out, err
	}
	if err := s.Exec(ctx, `UPDATE channels SET closed = NULL, expires = expires * 2`); err != nil {
		return out, err
	}
	return s.Correct.PayRead(ctx, r)
}

// returnsAnyCharge returns charges that were not made.
type returnsAnyCharge struct{ dbtest.Correct }

func (s returnsAnyCharge) ReturnCharge(ctx context.Context, id, charge string) (ledger.Session, error) {
	before, err := s.Session(ctx, id)
	if err != nil {
		return before, err
	}
	out, err := s.Correct.ReturnCharge(ctx, id, charge)
	if err == nil && out.Left == before.Left && out.Used > 0 {
		return s.ReturnChunksets(ctx, id, 1, charge)
	}
	return out, err
}

// forgetsCharges keeps only the last charge.
type forgetsCharges struct{ dbtest.Correct }

func (s forgetsCharges) ChargeSession(ctx context.Context, id string, n int64, charge string) (ledger.Session, error) {
	if err := s.Exec(ctx, `UPDATE sessions SET charges = NULL`); err != nil {
		return ledger.Session{}, err
	}
	return s.Correct.ChargeSession(ctx, id, n, charge)
}

type booksHalf struct{ dbtest.Correct }

func (s booksHalf) Book(ctx context.Context, list []ledger.Settlement) error {
	return s.Correct.Book(ctx, list[:len(list)/2])
}

// booksEach uses a transaction for each settlement.
type booksEach struct{ dbtest.Correct }

func (s booksEach) Book(ctx context.Context, list []ledger.Settlement) error {
	var errs []error
	for _, one := range list {
		errs = append(errs, s.Correct.Book(ctx, []ledger.Settlement{one}))
	}
	return errors.Join(errs...)
}

// lowersSettled replaces the settled amount by a late booking.
type lowersSettled struct{ dbtest.Correct }

func (s lowersSettled) Book(ctx context.Context, list []ledger.Settlement) error {
	if err := s.Correct.Book(ctx, list); err != nil {
		return err
	}
	for _, one := range list {
		if err := s.Exec(ctx, `UPDATE channels SET settled = $1 WHERE id = $2`, one.Amount, []byte(one.Channel)); err != nil {
			return err
		}
	}
	return nil
}

// booksAny ignores settlements of unknown channels.
type booksAny struct{ dbtest.Correct }

func (s booksAny) Book(ctx context.Context, list []ledger.Settlement) error {
	if err := s.Correct.Book(ctx, list); !errors.Is(err, database.ErrNotFound) {
		return err
	}
	return nil
}

// booksOpen books nothing over closed channels.
type booksOpen struct{ dbtest.Correct }

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
	return s.Correct.Book(ctx, list)
}

type blind struct{ dbtest.Correct }

func (blind) Audit(context.Context) ([]string, error) { return nil, nil }

func TestBrokenAmountsAreCaught(t *testing.T) {
	breaks := func(change func(*database.Census)) func(dbtest.Correct) dbtest.Handle {
		return func(c dbtest.Correct) dbtest.Handle { return miscounts{c, change} }
	}
	catch(t, []dbtest.Mutant{
		{Name: "takes the settled amount for accepted", Break: breaks(func(c *database.Census) {
			c.Channels.Accepted = c.Channels.Settled
		}), Caught: []string{"census/amounts"}},
		{Name: "overflows", Break: breaks(func(c *database.Census) {
			if c.Channels.Deposited == database.Sum(1<<64-1) {
				c.Channels.Deposited = 99
			}
		}), Caught: []string{"census/amounts"}},
	})
}

// miscounts changes the census.
type miscounts struct {
	dbtest.Correct
	change func(*database.Census)
}

func (s miscounts) Census(ctx context.Context) (database.Census, error) {
	c, err := s.Correct.Census(ctx)
	s.change(&c)
	return c, err
}
