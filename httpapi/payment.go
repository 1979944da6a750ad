package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"sluice/blob"
	"sluice/metering"
	"sluice/wire"
)

// newBill parses a GET's payment headers and returns its bill, or an error if the payer does not
// exist or has expired. The bill is nil for a free read: HEAD, or a key that may read the account.
func (s *Server) newBill(x *exchange) (*metering.Bill, error) {
	if s.reads != ReadsPaid || x.r.Method == http.MethodHead || x.readsFree {
		return nil, nil
	}
	payer := metering.Payer{Limit: -1}
	sessions, payments := x.r.Header.Values(wire.HeaderSessionID), x.r.Header.Values(wire.HeaderMicropayment)
	if len(sessions)+len(payments) > 1 {
		return nil, fmt.Errorf("%w: a read is paid by one %s or one %s", errHeader, wire.HeaderSessionID, wire.HeaderMicropayment)
	}
	if limits := x.r.Header.Values(wire.HeaderMaxChunksets); len(limits) > 0 {
		n, err := strconv.ParseUint(limits[0], 10, 63)
		if err != nil || len(limits) > 1 {
			return nil, fmt.Errorf("%w: %s must be one whole number", errHeader, wire.HeaderMaxChunksets)
		}
		payer.Limit = int64(n)
	}
	if len(sessions) == 1 {
		if payer.Session = sessions[0]; payer.Session == "" {
			return nil, metering.ErrSessionNotFound
		}
	}
	if len(payments) == 1 {
		p, err := s.channels.Verify(x.r.Context(), payments[0], x.affordSignatures)
		if err != nil {
			return nil, err
		}
		payer.Payment = &p
	}
	return s.meter.NewBill(x.r.Context(), payer)
}

// affordSignatures counts the verification of signatures towards the caller's request rate: each as
// a request, except for the first, which is a part of this one. It takes its turn like a request.
func (x *exchange) affordSignatures(ctx context.Context, work int) error {
	return x.allowance.Take(ctx, work-1)
}

// setPriceHeaders sets the price for a blob of this size, if reads are paid.
func (s *Server) setPriceHeaders(x *exchange, size int64) {
	if s.reads != ReadsPaid {
		return
	}
	x.header.set(wire.HeaderChunksetPrice, decimal(s.meter.Price()))
	x.header.set(wire.HeaderChunksetsRequired, decimal(metering.Chunksets(metering.Whole(size))))
}

// charge charges a bill for these ranges and sets the headers that say so.
func (s *Server) charge(x *exchange, bill *metering.Bill, ranges []blob.Range) error {
	if bill == nil {
		return nil
	}
	if err := s.awaitPermission(x); err != nil {
		return err
	}
	charged, left, err := bill.Charge(x.r.Context(), ranges)
	if err != nil {
		return err
	}
	x.header.set(wire.HeaderChunksetsCharged, decimal(charged))
	if charged > 0 {
		x.header.set(wire.HeaderChunksetsLeft, decimal(left))
	}
	return nil
}
