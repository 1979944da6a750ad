package transfer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/blob"
)

// pacedTo returns an allowance with this rate of bytes per second in each direction.
func pacedTo(rate int64) *access.Allowance {
	limiter := access.NewLimiter(access.LimiterOptions{Address: keys.Limits{BytesInPerSecond: rate, BytesOutPerSecond: rate}})
	return limiter.OfAddress(netip.MustParseAddr("192.0.2.1"))
}

// TestPacedTransfers checks that bodies of requests and responses take as long as the rate of their
// caller requires. The bytes for 0.1 s are free.
func TestPacedTransfers(t *testing.T) {
	const rate, size = 1000, 10_000
	const want = (size - rate/10) * time.Second / rate
	for name, transfer := range map[string]func(t *testing.T) (int64, error){
		"request": func(t *testing.T) (int64, error) {
			body := newReader(httptest.NewRecorder(), io.NopCloser(bytes.NewReader(make([]byte, size))), Options{Rate: DefaultMinRate, Context: t.Context()})
			body.Limit(pacedTo(rate))
			return io.Copy(io.Discard, body)
		},
		"response": func(t *testing.T) (int64, error) {
			w := newWriter(httptest.NewRecorder(), Options{Rate: DefaultMinRate, Context: t.Context()})
			w.Limit(pacedTo(rate))
			n, err := w.Write(make([]byte, size))
			return int64(n), err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			n, err := transfer(t)
			if took := time.Since(began).Round(time.Millisecond); n != size || err != nil || took != want {
				t.Errorf("%s: %d bytes, %v, after %v, want %v", name, n, err, took, want)
			}
		})
	}
}

// TestClientGoneWhilePaced ends a request's context while its body or response waits for its
// caller's rate. The transfer must end, and a body that was read to its end must have ended.
func TestClientGoneWhilePaced(t *testing.T) {
	const rate, size, after = 1000, 10_000, 2050 * time.Millisecond
	inTime := func(t *testing.T, transfer func(ctx context.Context, a *access.Allowance)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer time.AfterFunc(after, cancel).Stop()
			began := time.Now()
			transfer(ctx, pacedTo(rate))
			if took := time.Since(began); took != after {
				t.Errorf("the transfer ended after %v, its context after %v", took, after)
			}
		})
	}
	inTime(t, func(ctx context.Context, a *access.Allowance) {
		body := newReader(httptest.NewRecorder(), io.NopCloser(bytes.NewReader(make([]byte, size))), Options{Rate: DefaultMinRate, Context: ctx})
		body.Limit(a)
		n, err := io.Copy(io.Discard, body)
		if n < rate || n >= size || !errors.Is(err, blob.ErrIncompleteBody) || !errors.Is(err, context.Canceled) {
			t.Errorf("a body: %d bytes, %v, want %v", n, err, blob.ErrIncompleteBody)
		}
	})
	inTime(t, func(ctx context.Context, a *access.Allowance) {
		if err := a.PaceIn(ctx, 3*rate); !errors.Is(err, context.Canceled) { // so that the next bytes have to wait
			t.Error(err)
		}
		body := newReader(httptest.NewRecorder(), io.NopCloser(iotest.DataErrReader(bytes.NewReader([]byte("x")))), Options{Rate: DefaultMinRate, Context: ctx})
		body.Limit(a)
		if n, err := body.Read(make([]byte, 1)); n != 1 || !errors.Is(err, io.EOF) || !body.Ended() {
			t.Errorf("the last byte of a body: %d bytes, %v, want %v", n, err, io.EOF)
		}
	})
	inTime(t, func(ctx context.Context, a *access.Allowance) {
		w := newWriter(httptest.NewRecorder(), Options{Rate: DefaultMinRate, Context: ctx})
		w.Limit(a)
		n, err := w.Write(make([]byte, size))
		if n < rate || n >= size || w.Written() != int64(n) || !errors.Is(err, context.Canceled) {
			t.Errorf("a response: %d bytes, %d counted, %v, want %v", n, w.Written(), err, context.Canceled)
		}
	})
}

// TestEmptyWriteIsNotPaced checks that a write of no bytes does not wait for the other responses of
// its caller.
func TestEmptyWriteIsNotPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := pacedTo(1)
		ctx, cancel := context.WithCancel(t.Context())
		other := make(chan error)
		go func() { other <- a.PaceOut(ctx, 3600) }()
		synctest.Wait() // for the other response to wait
		w := newWriter(httptest.NewRecorder(), Options{Rate: DefaultMinRate, Context: t.Context()})
		w.Limit(a)
		began := time.Now()
		if n, err := w.Write(nil); n != 0 || err != nil || time.Since(began) != 0 {
			t.Errorf("%d bytes, %v, after %v", n, err, time.Since(began))
		}
		cancel()
		if err := <-other; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
