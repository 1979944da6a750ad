package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"sluice/metastore"
	"sluice/micropay"
	"sluice/wire"
)

// Reads tells who may read blobs.
type Reads string

// The kinds of reads.
const (
	ReadsPublic Reads = "public" // everybody, for nothing
	ReadsKey    Reads = "key"    // whoever has a key that reads the account
	ReadsPaid   Reads = "paid"   // whoever pays for the chunksets that a reply touches
)

// bill is what one read costs, and who pays for it. It follows the order of
// section 7 of the protocol: newBill reads what pays, require asks that
// something does, charge takes the chunksets, settle gives those back that were
// not served. A nil bill is that of a free read.
type bill struct {
	s       *Server
	limit   int64 // most chunksets that the client wants to pay; -1: any number
	session string
	payment *metastore.Payment

	charged int64
	channel string // that paid
}

// newBill reads the payment headers of a GET, and checks that what is to pay is
// there and live. HEAD is free, and so is a key that reads the account.
func (s *Server) newBill(x *exchange, r *http.Request) (*bill, error) {
	if s.Reads != ReadsPaid || r.Method == http.MethodHead || x.readsFree {
		return nil, nil
	}
	b := &bill{s: s, limit: -1}
	sessions, payments := r.Header.Values(wire.HeaderSessionID), r.Header.Values(wire.HeaderMicropayment)
	if len(sessions)+len(payments) > 1 {
		return nil, fmt.Errorf("%w: a read is paid by one %s or one %s", errHeader, wire.HeaderSessionID, wire.HeaderMicropayment)
	}
	if limits := r.Header.Values(wire.HeaderMaxChunksets); len(limits) > 0 {
		n, err := strconv.ParseUint(limits[0], 10, 63)
		if err != nil || len(limits) > 1 {
			return nil, fmt.Errorf("%w: %s must be one whole number", errHeader, wire.HeaderMaxChunksets)
		}
		b.limit = int64(n)
	}
	if len(sessions) == 1 {
		b.session = sessions[0]
		return b, payerError(s.Sessions.Live(r.Context(), b.session))
	}
	if len(payments) == 1 {
		p, err := s.Channels.Verify(payments[0])
		if err != nil {
			return nil, err
		}
		b.payment = &p
		return b, payerError(s.Channels.Live(r.Context(), p))
	}
	return b, nil
}

// payerError tells that what is to pay for a read is not there, or not any
// more. It is never the blob that is.
func payerError(err error) error {
	for _, e := range []struct{ is, as error }{
		{metastore.ErrNotFound, errPayerNoSession},
		{metastore.ErrExpired, errPayerSessionExpired},
		{metastore.ErrNoChannel, errPayerNoChannel},
		{metastore.ErrChannelClosed, errPayerChannelClosed},
		{metastore.ErrChannelExpired, errPayerChannelExpired},
	} {
		if errors.Is(err, e.is) {
			return fmt.Errorf("%w: %w", e.as, err)
		}
	}
	return err
}

// tellPrice says what a blob of this size costs.
func (s *Server) tellPrice(h http.Header, size int64) {
	if s.Reads != ReadsPaid {
		return
	}
	h.Set(wire.HeaderChunksetPrice, decimal(s.Channels.Price()))
	h.Set(wire.HeaderChunksetsRequired, decimal(countChunksets(wholeOf(size))))
}

// wholeOf gives all bytes of a blob as ranges: none of an empty one.
func wholeOf(size int64) []byteRange {
	if size == 0 {
		return nil
	}
	return []byteRange{{0, size}}
}

// require asks that something pays for a blob of this size.
func (b *bill) require(size int64) error {
	if b == nil || b.session != "" || b.payment != nil {
		return nil
	}
	return &shortError{is: errPaymentRequired, required: metastore.Cost(countChunksets(wholeOf(size)), b.s.Channels.Price())}
}

// charge takes the chunksets that these ranges touch, durably, and tells of it
// in the headers of the reply.
func (b *bill) charge(ctx context.Context, h http.Header, ranges []byteRange) error {
	if b == nil {
		return nil
	}
	n := countChunksets(ranges)
	if b.limit >= 0 && n > b.limit {
		return &shortError{is: errChargeLimit, required: n, available: b.limit}
	}
	h.Set(wire.HeaderChunksetsCharged, decimal(n))
	if n == 0 {
		return nil
	}
	if b.s.Returns.waiting() >= maxReturns {
		return fmt.Errorf("%w: too much is still to be given back", errTooBusy)
	}
	left, err := b.take(ctx, n)
	if err != nil {
		h.Del(wire.HeaderChunksetsCharged)
		return err
	}
	b.charged = n
	h.Set(wire.HeaderChunksetsLeft, decimal(left))
	return nil
}

// take charges n chunksets and tells how many are left. Where it is not known
// whether that took effect nothing is served, so that they go back if it did.
func (b *bill) take(ctx context.Context, n int64) (left int64, err error) {
	name := rand.Text()
	if b.payment != nil {
		c, err := b.s.Channels.PayRead(ctx, *b.payment, n, name)
		if errors.Is(err, metastore.ErrUnknownOutcome) {
			p := b.payment
			b.s.Returns.give(giveBack{Name: name, InDoubt: true, Count: n, Payment: &payment{
				Sender: p.Sender, Receiver: p.Receiver, Asset: p.Asset, PaymentChannelID: p.PaymentChannelID, Sequence: p.Sequence,
			}})
		}
		b.channel = c.ID
		return c.Credit / b.s.Channels.Price(), payerError(err)
	}
	used, err := b.s.Sessions.Charge(ctx, b.session, n, name)
	switch {
	case errors.Is(err, metastore.ErrExhausted):
		return 0, &shortError{is: metastore.ErrExhausted, required: n, available: used.Left}
	case errors.Is(err, metastore.ErrUnknownOutcome):
		b.s.Returns.give(giveBack{Name: name, InDoubt: true, Count: n, Session: b.session})
	}
	return used.Left, payerError(err)
}

// settle gives the chunksets back of which no byte was handed to the
// connection. served are the runs that were.
func (b *bill) settle(served []byteRange) {
	if b == nil {
		return
	}
	untouched := b.charged - countChunksets(served)
	if untouched <= 0 {
		return
	}
	g := giveBack{Name: rand.Text(), Count: untouched, Session: b.session}
	if b.payment != nil {
		g.Channel, g.Price = b.channel, b.s.Channels.Price()
	}
	b.s.Returns.give(g)
}

// shortError is a refusal with what would have been enough.
type shortError struct {
	is                  error
	required, available int64
}

// Error gives the text of the refusal.
func (e *shortError) Error() string { return e.is.Error() }

// Unwrap gives the refusal.
func (e *shortError) Unwrap() error { return e.is }

// tellPayment adds to a problem what a payer can act on.
func (s *Server) tellPayment(p *wire.Problem, err error) {
	var (
		short *shortError
		funds *metastore.InsufficientFundsError
		stale *metastore.StaleError
		bad   *micropay.Error
	)
	switch {
	case errors.As(err, &short):
		p.Required, p.Available = decimal(short.required), decimal(short.available)
	case errors.As(err, &funds):
		p.Required, p.Available = decimal(funds.Required), decimal(funds.Available)
	case errors.As(err, &stale):
		p.StoredMicropayment = base64.StdEncoding.EncodeToString(stale.Stored)
	case errors.As(err, &bad):
		p.Reason = string(bad.Reason)
	}
	if p.Status == http.StatusPaymentRequired {
		p.ChunksetPrice = decimal(s.Channels.Price())
	}
}
