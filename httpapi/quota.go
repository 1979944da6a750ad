package httpapi

import (
	"context"
	"errors"
	"io"

	"sluice/access"
	"sluice/bytestore"
	"sluice/database"
)

// storeContext returns the context for storing a request's body. The byte store divides its staging
// space among the callers that it names.
func (x *exchange) storeContext() context.Context {
	return bytestore.WithCaller(x.r.Context(), x.allowance.Holder())
}

// bodyReader is a request's body that is counted towards the quota of its caller.
type bodyReader struct {
	io.Reader
	reservation *access.Reservation
	reserved    int64 // bytes
	read        int64 // bytes
}

// reservationStep is how many bytes are reserved at a time for a body of unknown length.
const reservationStep = 1 << 20

// storeBody reserves space in the caller's quota for the request's body, before any of it is read.
// name and metadata are the blob's, or "" for a part. The caller must call confirm with the write's
// result.
func (x *exchange) storeBody(name, metadata string) (*bodyReader, error) {
	size := x.r.ContentLength
	reservation, err := x.allowance.Reserve(x.r.Context(), name, metadata, max(size, 0))
	if err != nil {
		return nil, err
	}
	b := &bodyReader{Reader: x.r.Body, reservation: reservation, reserved: size}
	if size == bytestore.UnknownSize {
		b.reserved = 0
	}
	return b, nil
}

// Read reads from the body. If its length is unknown it reserves more space as needed.
func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read += int64(n)
	if b.read > b.reserved {
		if err := b.grow(); err != nil {
			return 0, err
		}
	}
	return n, err
}

// grow reserves another step or, near the quota's end, what has been read.
func (b *bodyReader) grow() error {
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

// confirm returns err, the write's result.
func (b *bodyReader) confirm(err error) error {
	confirm(b.reservation, err)
	return err
}

// confirm keeps a reservation if the write was made or may have been made, and releases it
// otherwise.
func confirm(r *access.Reservation, err error) {
	if err == nil || errors.Is(err, database.ErrUnknownOutcome) {
		r.Keep()
	} else {
		r.Release()
	}
}
