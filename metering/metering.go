// Package metering charges for reads. A read costs one chunkset of wire.ChunksetSize bytes for each
// of the blob's chunksets that its ranges touch. A Meter charges it to a session or over a payment
// channel before the first byte is sent, and Returns returns the chunksets that were not sent at
// all, exactly once, even if the process restarts.
//
// The package knows no HTTP.
package metering

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"sluice/blob"
	"sluice/database"
	"sluice/ledger"
	"sluice/paychan"
	"sluice/session"
	"sluice/wire"
)

// A bill's errors. They are wrapped where they are returned. The blob is never the cause.
var (
	// ErrPaymentRequired reports a read that nothing pays for. It is in a ShortfallError.
	ErrPaymentRequired = errors.New("the read must be paid for")
	// ErrAboveLimit reports a read that costs more than its Payer allows. It is in a
	// ShortfallError.
	ErrAboveLimit = errors.New("the read costs more chunksets than allowed")
	// ErrBacklog reports that too many returns are pending. Nothing was charged.
	ErrBacklog = errors.New("too many returns of chunksets are pending")

	ErrSessionNotFound = errors.New("the session to pay with does not exist")
	ErrSessionLost     = errors.New("the session to pay with does not exist, and may have been lost when the service was set back to an earlier state")
	ErrSessionExpired  = errors.New("the session to pay with has expired")
	ErrChannelNotFound = errors.New("the channel to pay with does not exist")
	ErrChannelClosed   = errors.New("the channel to pay with is closed")
	ErrChannelExpired  = errors.New("the channel to pay with has expired")
)

// ShortfallError is a refusal with the amount that would have been sufficient. Required and
// Available are chunksets, or the asset's units if nothing pays.
type ShortfallError struct {
	Err                 error
	Required, Available int64
}

// Error returns the text of Err.
func (e *ShortfallError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ShortfallError) Unwrap() error { return e.Err }

// Chunksets returns the number of a blob's distinct chunksets that the ranges touch. The ranges may
// overlap and may be in any order. For example, two bytes on either side of 10 MiB touch two.
func Chunksets(ranges []blob.Range) int64 {
	const size = wire.ChunksetSize
	byOffset := slices.SortedFunc(slices.Values(ranges), func(a, b blob.Range) int { return cmp.Compare(a.Off, b.Off) })
	var count int64
	next := int64(0) // the first chunkset that is not counted yet
	for _, r := range byOffset {
		first := max(r.Off/size, next)
		if end := (r.Off+r.N-1)/size + 1; end > first {
			count += end - first
			next = end
		}
	}
	return count
}

// Whole returns all bytes in a blob of this size as ranges; an empty blob has none.
func Whole(size int64) []blob.Range {
	if size == 0 {
		return nil
	}
	return []blob.Range{{Off: 0, N: size}}
}

// Meter charges reads. It is safe for concurrent use.
type Meter struct {
	sessions *session.Service
	channels *paychan.Service
	returns  *Returns
}

// New returns a Meter that charges sessions and channels, and passes charges for chunksets that
// were not served to returns.
func New(sessions *session.Service, channels *paychan.Service, returns *Returns) *Meter {
	return &Meter{sessions: sessions, channels: channels, returns: returns}
}

// Price returns a chunkset's price in units of the asset.
func (m *Meter) Price() int64 { return m.channels.Price() }

// Payer identifies who pays for a read. At most one of Session and Payment is set.
type Payer struct {
	Session string          // a session's id; "": none
	Payment *ledger.Payment // a micropayment that paychan has verified; nil: none
	Limit   int64           // greatest number of chunksets to charge; negative: no limit
}

// Bill is the bill of one read: NewBill checks who pays, Require that anybody does, Charge takes
// the chunksets, and Return returns those that were not served. It is not safe for concurrent use.
//
// A nil *Bill is a free read's bill: its methods do nothing and return nil.
type Bill struct {
	meter   *Meter
	payer   Payer
	charged int64
	channel string // id of the channel that paid
}

// NewBill returns a read's bill. If the payer names a session or a channel that does not exist or
// has ended, NewBill returns ErrSessionNotFound, ErrSessionLost, ErrSessionExpired,
// ErrChannelNotFound, ErrChannelClosed or ErrChannelExpired. A payer that names neither is
// accepted: Require returns an error for it.
func (m *Meter) NewBill(ctx context.Context, payer Payer) (*Bill, error) {
	var err error
	switch {
	case payer.Session != "":
		err = m.sessions.Live(ctx, payer.Session)
	case payer.Payment != nil:
		err = m.channels.Live(ctx, *payer.Payment)
	}
	if err != nil {
		return nil, payerError(err)
	}
	return &Bill{meter: m, payer: payer}, nil
}

// payerError maps a missing or expired session or channel to the error of this package, so it is
// never reported as a missing blob.
func payerError(err error) error {
	if errors.Is(err, database.ErrLost) {
		return ErrSessionLost // err is the error of a session that is not paid with
	}
	for _, e := range []struct{ is, as error }{
		{database.ErrNotFound, ErrSessionNotFound},
		{database.ErrExpired, ErrSessionExpired},
		{ledger.ErrNoChannel, ErrChannelNotFound},
		{ledger.ErrChannelClosed, ErrChannelClosed},
		{ledger.ErrChannelExpired, ErrChannelExpired},
	} {
		if errors.Is(err, e.is) {
			return fmt.Errorf("%w: %w", e.as, err)
		}
	}
	return err
}

// Require returns ErrPaymentRequired, with the price of a whole blob of this size, if nothing pays
// for the read.
func (b *Bill) Require(size int64) error {
	if b == nil || b.payer.Session != "" || b.payer.Payment != nil {
		return nil
	}
	return &ShortfallError{Err: ErrPaymentRequired, Required: ledger.Cost(Chunksets(Whole(size)), b.meter.Price())}
}

// Charge durably takes the chunksets that these ranges touch. It returns their number, and how many
// the payer has left (0 if it charged none). It returns ErrAboveLimit, ErrBacklog, the errors of
// NewBill if the session or channel has ended since, or an error of session.Service.Charge or
// paychan.Service.PayRead. After an error nothing must be served: if the charge's outcome is
// unknown (database.ErrUnknownOutcome), it is returned in the background in case it was made.
// Charge must be called at most once.
func (b *Bill) Charge(ctx context.Context, ranges []blob.Range) (charged, left int64, err error) {
	if b == nil {
		return 0, 0, nil
	}
	n := Chunksets(ranges)
	if b.payer.Limit >= 0 && n > b.payer.Limit {
		return 0, 0, &ShortfallError{Err: ErrAboveLimit, Required: n, Available: b.payer.Limit}
	}
	if n == 0 {
		return 0, 0, nil
	}
	if b.meter.returns.Pending() >= maxPending {
		return 0, 0, ErrBacklog
	}
	if left, err = b.take(ctx, n); err != nil {
		return 0, 0, err
	}
	b.charged = n
	return n, left, nil
}

// take charges n chunksets and returns how many are left.
func (b *Bill) take(ctx context.Context, n int64) (left int64, err error) {
	m, name := b.meter, rand.Text()
	if b.payer.Payment != nil {
		c, err := m.channels.PayRead(ctx, *b.payer.Payment, n, name)
		if errors.Is(err, database.ErrUnknownOutcome) {
			m.returns.add(pendingReturn{Name: name, InDoubt: true, Count: n, Payment: keyOf(b.payer.Payment)})
		}
		b.channel = c.ID
		return c.Credit / m.Price(), payerError(err)
	}
	used, err := m.sessions.Charge(ctx, b.payer.Session, n, name)
	switch {
	case errors.Is(err, ledger.ErrExhausted):
		return 0, &ShortfallError{Err: ledger.ErrExhausted, Required: n, Available: used.Left}
	case errors.Is(err, database.ErrUnknownOutcome):
		m.returns.add(pendingReturn{Name: name, InDoubt: true, Count: n, Session: b.payer.Session})
	}
	return used.Left, payerError(err)
}

// Return returns the charged chunksets that the served ranges do not touch, in the background. It
// must be called at most once, after the read has ended.
func (b *Bill) Return(served []blob.Range) {
	if b == nil {
		return
	}
	unserved := b.charged - Chunksets(served)
	if unserved <= 0 {
		return
	}
	p := pendingReturn{Name: rand.Text(), Count: unserved, Session: b.payer.Session}
	if b.payer.Payment != nil {
		p.Channel, p.Price = b.channel, b.meter.Price()
	}
	b.meter.returns.add(p)
}
