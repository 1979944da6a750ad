package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"sluice/access"
	"sluice/blob"
	"sluice/exchange"
	"sluice/ledger"
	"sluice/metering"
	"sluice/wire"
)

// newBill parses a GET's payment headers and returns its bill, or an error if the payer does not
// exist or has expired. The bill is nil for a free read: HEAD, or a key that may read the account.
func (s *Server) newBill(x *call) (*metering.Bill, error) {
	if x.place.Reads != access.ReadsPaid || x.Request.Method == http.MethodHead || x.readsFree {
		return nil, nil
	}
	payer := metering.Payer{Limit: -1}
	sessions, payments := x.Request.Header.Values(wire.HeaderSessionID), x.Request.Header.Values(wire.HeaderMicropayment)
	if len(sessions)+len(payments) > 1 {
		return nil, fmt.Errorf("%w: a read is paid by one %s or one %s", exchange.ErrHeader, wire.HeaderSessionID, wire.HeaderMicropayment)
	}
	limit, limited, err := x.wholeNumber(wire.HeaderMaxChunksets)
	if err != nil {
		return nil, err
	}
	if limited {
		payer.Limit = limit
	}
	if len(sessions) == 1 {
		if payer.Session = sessions[0]; payer.Session == "" {
			return nil, metering.ErrSessionNotFound
		}
	}
	if len(payments) == 1 {
		p, err := s.verify(x, payments[0])
		if err != nil {
			return nil, err
		}
		payer.Payment = &p
	}
	return s.meter.NewBill(x.Request.Context(), payer)
}

// verify returns a micropayment in base64 as a payment that buys something, with the greatest price
// that the request permits.
func (s *Server) verify(x *call, encoded string) (ledger.Payment, error) {
	price, limited, err := x.wholeNumber(wire.HeaderMaxChunksetPrice)
	if err == nil && limited && price == 0 { // in a payment, 0 means any price
		err = &ledger.PriceChangedError{Price: s.meter.Price()}
	}
	if err != nil {
		return ledger.Payment{}, err
	}
	p, err := s.channels.Verify(x.Request.Context(), encoded, x.affordSignatures)
	p.MaxPrice = price
	return p, err
}

// wholeNumber returns a header's number, which is at most 2^63-1, and reports whether the request
// has the header.
func (x *call) wholeNumber(header string) (n int64, present bool, err error) {
	values := x.Request.Header.Values(header)
	if len(values) == 0 {
		return 0, false, nil
	}
	number, err := strconv.ParseUint(values[0], 10, 63)
	if err != nil || len(values) > 1 {
		return 0, false, fmt.Errorf("%w: %s must be one whole number", exchange.ErrHeader, header)
	}
	return int64(number), true, nil
}

// affordSignatures counts the verification of signatures towards the caller's request rate: each as
// a request, except for the first, which is a part of this one. It takes its turn like a request.
func (x *call) affordSignatures(ctx context.Context, work int) error {
	return x.Allowance.Take(ctx, work-1)
}

// setPriceHeaders sets the price for a blob of this size, if reads are paid.
func (s *Server) setPriceHeaders(x *call, size int64) {
	if x.place.Reads != access.ReadsPaid {
		return
	}
	x.Fields.Set(wire.HeaderChunksetPrice, decimal(s.meter.Price()))
	x.Fields.Set(wire.HeaderChunksetsRequired, decimal(metering.Chunksets(metering.Whole(size))))
}

// charge charges a bill for these ranges and sets the headers that report it.
func (s *Server) charge(x *call, bill *metering.Bill, ranges []blob.Range) error {
	if bill == nil {
		return nil
	}
	if err := x.AwaitPermission(); err != nil {
		return err
	}
	charged, left, err := bill.Charge(x.Request.Context(), ranges)
	if err != nil {
		return err
	}
	x.Fields.Set(wire.HeaderChunksetsCharged, decimal(charged))
	if charged > 0 {
		x.Fields.Set(wire.HeaderChunksetsLeft, decimal(left))
	}
	return nil
}
