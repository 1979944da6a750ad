package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"sluice/access"
	"sluice/blob"
	"sluice/exchange"
	"sluice/metering"
	"sluice/wire"
)

// newBill parses a GET's payment headers and returns its bill, or an error if the payer does not
// exist or has expired. The bill is nil for a free read: HEAD, or a key that may read the account.
func (s *Server) newBill(x *call) (*metering.Bill, error) {
	if s.reads != access.ReadsPaid || x.Request.Method == http.MethodHead || x.readsFree {
		return nil, nil
	}
	payer := metering.Payer{Limit: -1}
	sessions, payments := x.Request.Header.Values(wire.HeaderSessionID), x.Request.Header.Values(wire.HeaderMicropayment)
	if len(sessions)+len(payments) > 1 {
		return nil, fmt.Errorf("%w: a read is paid by one %s or one %s", exchange.ErrHeader, wire.HeaderSessionID, wire.HeaderMicropayment)
	}
	if limits := x.Request.Header.Values(wire.HeaderMaxChunksets); len(limits) > 0 {
		n, err := strconv.ParseUint(limits[0], 10, 63)
		if err != nil || len(limits) > 1 {
			return nil, fmt.Errorf("%w: %s must be one whole number", exchange.ErrHeader, wire.HeaderMaxChunksets)
		}
		payer.Limit = int64(n)
	}
	if len(sessions) == 1 {
		if payer.Session = sessions[0]; payer.Session == "" {
			return nil, metering.ErrSessionNotFound
		}
	}
	if len(payments) == 1 {
		p, err := s.channels.Verify(x.Request.Context(), payments[0], x.affordSignatures)
		if err != nil {
			return nil, err
		}
		payer.Payment = &p
	}
	return s.meter.NewBill(x.Request.Context(), payer)
}

// affordSignatures counts the verification of signatures towards the caller's request rate: each as
// a request, except for the first, which is a part of this one. It takes its turn like a request.
func (x *call) affordSignatures(ctx context.Context, work int) error {
	return x.Allowance.Take(ctx, work-1)
}

// setPriceHeaders sets the price for a blob of this size, if reads are paid.
func (s *Server) setPriceHeaders(x *call, size int64) {
	if s.reads != access.ReadsPaid {
		return
	}
	x.Fields.Set(wire.HeaderChunksetPrice, decimal(s.meter.Price()))
	x.Fields.Set(wire.HeaderChunksetsRequired, decimal(metering.Chunksets(metering.Whole(size))))
}

// charge charges a bill for these ranges and sets the headers that say so.
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
