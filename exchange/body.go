package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"sluice/access"
	"sluice/bytestore"
	"sluice/database"
	"sluice/wire"
)

// StoreContext returns the context for storing a request's body. The byte store divides its staging
// space among the callers that it names.
func (x *Exchange) StoreContext() context.Context {
	return bytestore.WithCaller(x.Request.Context(), x.Allowance.Holder())
}

// StoredBody is a request's body that is counted towards the quota of its caller.
type StoredBody struct {
	io.Reader
	reservation *access.Reservation
	reserved    int64 // bytes
	read        int64 // bytes
}

// reservationStep is how many bytes are reserved at a time for a body of unknown length.
const reservationStep = 1 << 20

// StoreBody reserves space in the caller's quota for the request's body, before any of it is read.
// name and metadata are the blob's, or "" for a part. source is the body as it is stored, and size
// its length or bytestore.UnknownSize. The caller must call Confirm with the write's result.
func (x *Exchange) StoreBody(source io.Reader, size int64, name, metadata string) (*StoredBody, error) {
	reservation, err := x.Allowance.Reserve(x.Request.Context(), name, metadata, max(size, 0))
	if err != nil {
		return nil, err
	}
	b := &StoredBody{Reader: source, reservation: reservation, reserved: size}
	if size == bytestore.UnknownSize {
		b.reserved = 0
	}
	return b, nil
}

// Read reads from the body. If its length is unknown it reserves more space as needed.
func (b *StoredBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read += int64(n)
	if b.read > b.reserved {
		if err := b.grow(); err != nil {
			return 0, err
		}
	}
	return n, err
}

// grow reserves another step or, near the quota's end, only the bytes that were read.
func (b *StoredBody) grow() error {
	step := max(reservationStep, b.read-b.reserved)
	err := b.reservation.Grow(step)
	if errors.Is(err, access.ErrQuota) {
		step = b.read - b.reserved
		err = b.reservation.Grow(step)
	}
	if err == nil {
		b.reserved += step
	}
	return err
}

// Confirm returns err, the write's result.
func (b *StoredBody) Confirm(err error) error {
	Confirm(b.reservation, err)
	return err
}

// Confirm keeps a reservation if the write was made or may have been made, and releases it
// otherwise.
func Confirm(r *access.Reservation, err error) {
	if err == nil || errors.Is(err, database.ErrUnknownOutcome) {
		r.Keep()
	} else {
		r.Release()
	}
}

// DiscardBody reads a request's body if its method defines no meaning for one. The server itself
// would do so before the response, without a time limit. The caller's key is checked again
// afterwards.
func (x *Exchange) DiscardBody() error {
	switch x.Request.Method {
	case http.MethodPut, http.MethodPost, http.MethodPatch:
		return nil
	}
	if x.Body.Ended() {
		return nil
	}
	n, err := io.Copy(io.Discard, io.LimitReader(&x.Body, wire.MaxJSONBody+1))
	switch {
	case err != nil:
		return err
	case n > wire.MaxJSONBody:
		return BodyTooLarge(wire.MaxJSONBody)
	case n > 0:
		return x.Recheck(x.Request.Context())
	default:
		return nil
	}
}

// BodyTooLarge returns ErrBodyTooLarge for a body that may have at most limit bytes.
func BodyTooLarge(limit int) error {
	return fmt.Errorf("%w: the limit is %d bytes", ErrBodyTooLarge, limit)
}
