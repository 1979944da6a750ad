package money

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/ledger"
)

// payOutRows is the maximum number of settlements that a statement books.
const payOutRows = 100

// errNotAccepted is the error for booking a payment that was never accepted.
var errNotAccepted = errors.New("sqlstore: the channel accepted no such payment")

// accepted reports whether a channel can have accepted a payment: its sequence and amount
// increase together, except that a renewal increases the sequence alone.
func accepted(c ledger.Channel, sequence, amount int64) bool {
	return sequence < c.Sequence && amount <= c.Accepted || sequence == c.Sequence && amount == c.Accepted
}

// Book implements ledger.Settlements.
func (s *Ledger) Book(ctx context.Context, list []ledger.Settlement) error {
	// Sorted, so that concurrent calls lock channels in the same order.
	list = slices.SortedFunc(slices.Values(list), func(a, b ledger.Settlement) int { return cmp.Compare(a.Channel, b.Channel) })
	return s.in.WriteLocked(ctx, func(t tx) error {
		for some := range slices.Chunk(list, payOutRows) {
			if err := t.payOut(some); err != nil {
				return err
			}
		}
		return nil
	})
}

// payOut books settlements in a fixed number of statements.
func (t tx) payOut(list []ledger.Settlement) error {
	channels := make(engine.Args, len(list))
	for i, s := range list {
		channels[i] = []byte(s.Channel)
	}
	in := "(" + engine.Parameters(1, len(list)) + ")"
	if err := t.acceptedAll(list, channels, in); err != nil {
		return err
	}
	var rows []string
	var values engine.Args
	for _, s := range list {
		rows = append(rows, "("+engine.Parameters(len(values)+1, 4)+")")
		values = append(values, []byte(s.Channel), s.Sequence, s.Amount, engine.Micros(t.Now))
	}
	if _, err := t.Exec(`INSERT INTO ledger (channel, sequence, amount, at) VALUES `+strings.Join(rows, ", ")+`
		ON CONFLICT (channel, sequence) DO NOTHING`, values...); err != nil {
		return err
	}
	if err := t.foldLedger(channels, in); err != nil {
		return err
	}
	// Amounts in the table ledger are booked. One that was not accepted is not from this call.
	const paid = `(SELECT MAX(l.amount) FROM ledger l WHERE l.channel = channels.id AND l.amount <= channels.accepted)`
	if _, err := t.Exec(`UPDATE channels SET settled = `+paid+` WHERE id IN `+in+` AND settled < `+paid, channels...); err != nil {
		return err
	}
	_, err := t.Exec(`DELETE FROM settlements WHERE channel IN `+in+`
		AND amount <= (SELECT c.settled FROM channels c WHERE c.id = settlements.channel)`, channels...)
	return err
}

// foldLedger deletes channels' rows that their last bookings include, because amounts are
// cumulative. It keeps rows that contradict the last booking for the audit.
func (t tx) foldLedger(channels engine.Args, in string) error {
	_, err := t.Exec(`DELETE FROM ledger WHERE channel IN `+in+` AND EXISTS
		(SELECT 1 FROM ledger n WHERE n.channel = ledger.channel AND n.sequence > ledger.sequence AND n.amount >= ledger.amount)`, channels...)
	return err
}

// acceptedAll locks the channels of settlements. It returns errNotAccepted or
// database.ErrNotFound unless all settlements were accepted.
func (t tx) acceptedAll(list []ledger.Settlement, channels engine.Args, in string) error {
	var c ledger.Channel
	found := map[string]ledger.Channel{}
	err := t.Each(`SELECT id, accepted, sequence FROM channels WHERE id IN `+in+` ORDER BY id`+t.ForUpdate(), channels,
		engine.Args{&c.ID, (*engine.Integer)(&c.Accepted), (*engine.Integer)(&c.Sequence)},
		func() error {
			found[c.ID] = c
			return nil
		})
	if err != nil {
		return err
	}
	for _, s := range list {
		c, ok := found[s.Channel]
		if !ok {
			return fmt.Errorf("channel: %w", database.ErrNotFound)
		}
		if !accepted(c, s.Sequence, s.Amount) {
			return errNotAccepted
		}
	}
	return nil
}
