package money

import (
	"context"
	"slices"

	"sluice/database/sqlstore/internal/engine"
	"sluice/ledger"
)

// ChargeSession implements ledger.Sessions.
func (s *Ledger) ChargeSession(ctx context.Context, id string, n int64, charge string) (ledger.Session, error) {
	if n < 1 || charge == "" {
		return ledger.Session{}, errNegative
	}
	return s.uses.use(ctx, id, n, charge)
}

// ReturnCharge implements ledger.Sessions.
func (s *Ledger) ReturnCharge(ctx context.Context, id string, charge string) (ledger.Session, error) {
	name := chargeID(charge)
	out, err := s.writeSession(ctx, func(t tx) (ledger.Session, error) {
		out, charges, err := t.chargedSession(id)
		if err != nil {
			return out, err
		}
		i := slices.IndexFunc(charges, func(r chargeRecord) bool { return r.id == name })
		if i < 0 {
			return out, nil
		}
		n := charges[i].count
		if n > out.Used {
			return out, errNotUsed
		}
		out.Left += n
		out.Used -= n
		return out, t.recordCharge(id, -n, slices.Delete(charges, i, i+1))
	})
	if err == nil {
		s.uses.doubts.remove(id, name)
	}
	return out, err
}

// ReturnRead implements ledger.Payments.
func (s *Ledger) ReturnRead(ctx context.Context, p ledger.Payment, charge string) (ledger.Channel, error) {
	name := chargeID(charge)
	return s.writeChannel(ctx, func(t tx) (ledger.Channel, error) {
		c, _, err := t.findChannel(p.Sender, p.Receiver, p.Asset, p.PaymentChannelID)
		if err != nil {
			return c, err
		}
		var count, price int64
		sold, err := t.Row(`SELECT count, price FROM sales WHERE channel = $1 AND sequence = $2 AND charge = $3`,
			engine.Args{[]byte(c.ID), p.Sequence, name[:]}, (*engine.Integer)(&count), (*engine.Integer)(&price))
		if err != nil || !sold {
			return c, err
		}
		if _, err := t.Exec(`UPDATE sales SET charge = NULL WHERE channel = $1 AND sequence = $2`, []byte(c.ID), p.Sequence); err != nil {
			return c, err
		}
		return t.addCredit(c, count, price)
	})
}
