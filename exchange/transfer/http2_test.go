package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/blob"
	"sluice/test/testenv"
)

// TestPausesOfTheHandlerOverHTTP2: over HTTP/2 an expired deadline ends a stream even if nothing
// waits for it, so no deadline may be set between two reads or writes by the handler.
func TestPausesOfTheHandlerOverHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pause = 2 * time.Minute // several windows
		served := make(chan error, 1)
		overPipe(t, func(w http.ResponseWriter, r *http.Request) {
			options := Options{Rate: DefaultMinRate, Context: r.Context(), HTTP2: true}
			body, out := newReader(w, r.Body, options), newWriter(w, options)
			piece := make([]byte, 4)
			for range 3 {
				_, err := io.ReadFull(body, piece)
				time.Sleep(pause)
				if err == nil {
					_, err = out.Write(piece)
				}
				if err == nil {
					err = http.NewResponseController(w).Flush()
				}
				if err != nil {
					served <- err
					return
				}
				time.Sleep(pause)
			}
			served <- nil
		}, func(client *http.Client) {
			r, w := io.Pipe()
			go func() {
				for range 3 {
					testenv.Check(t, testenv.Error(w.Write([]byte("some"))))
					time.Sleep(2 * pause) // later bytes must still be read
				}
				testenv.Check(t, w.Close())
			}()
			res := testenv.Must(client.Post("http://pipe/", "", r))(t)
			got, err := io.ReadAll(res.Body)
			if err := errors.Join(err, res.Body.Close(), <-served); err != nil || string(got) != "somesomesome" || res.ProtoMajor != 2 {
				t.Errorf("HTTP/%d, %q, %v", res.ProtoMajor, got, err)
			}
		})
	})
}

// TestPacedBodyAndSlowStoreOverHTTP2: a body that is limited to the rate of its caller while the
// store is slow as well arrives completely: neither counts against the client, which sends as the
// stream's window allows.
func TestPacedBodyAndSlowStoreOverHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			size   = streamWindow + streamWindow/4
			rate   = 512 // below a client's minimum rate
			piece  = size / 8
			store  = 2 * time.Minute // several windows, for each piece
			atMost = 2 * (size/rate*time.Second + size/piece*store)
		)
		limiter := access.NewLimiter(access.LimiterOptions{Address: keys.Limits{BytesInPerSecond: rate}})
		served := make(chan error, 1)
		overPipe(t, func(w http.ResponseWriter, r *http.Request) {
			body := newReader(w, r.Body, Options{Rate: DefaultMinRate, Context: r.Context(), HTTP2: true})
			body.Limit(limiter.OfAddress(netip.MustParseAddr("192.0.2.1")))
			var got int64
			for {
				n, err := io.CopyN(io.Discard, body, piece)
				got += n
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					served <- fmt.Errorf("after %d bytes: %w", got, err)
					return
				}
				time.Sleep(store)
			}
			if got != size {
				served <- fmt.Errorf("received %d bytes, want %d", got, size)
				return
			}
			served <- nil
		}, func(client *http.Client) {
			began := time.Now()
			res := testenv.Must(client.Post("http://pipe/", "", bytes.NewReader(make([]byte, size))))(t)
			testenv.Check(t, errors.Join(res.Body.Close(), <-served))
			// The bytes for 0.1 s are free.
			if took := time.Since(began); took < (size-rate/10)/rate*time.Second || took > atMost {
				t.Errorf("the body took %v", took)
			}
		})
	})
}

// overPipe connects a client to a server over HTTP/2, on a pipe in the bubble.
func overPipe(t *testing.T, handle http.HandlerFunc, ask func(*http.Client)) {
	t.Helper()
	var h2 http.Protocols
	h2.SetUnencryptedHTTP2(true)
	connect := servePipes(t, &http.Server{Handler: handle, Protocols: &h2, HTTP2: HTTP2Config()})
	transport := &http.Transport{Protocols: &h2, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return connect(), nil
	}}
	ask(&http.Client{Transport: transport})
	transport.CloseIdleConnections()
}

// TestCutOverHTTP2 cuts a response that waits for a window, and one between two writes.
func TestCutOverHTTP2(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			served := make(chan error, 1)
			overPipe(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", fmt.Sprint(64<<20))
				out := newWriter(w, Options{Rate: DefaultMinRate, Context: r.Context(), HTTP2: true})
				defer time.AfterFunc(time.Second, out.Cut).Stop()
				_, err := out.Write(make([]byte, 1024))
				time.Sleep(pause)
				if err == nil {
					_, err = out.Write(make([]byte, 64<<20-1024))
				}
				served <- err
				panic(http.ErrAbortHandler)
			}, func(client *http.Client) {
				res, err := client.Get("http://pipe/")
				if err == nil {
					err = <-served
					served <- err
					n, readErr := io.Copy(io.Discard, res.Body)
					if readErr == nil || n == 64<<20 {
						t.Errorf("the client got %d bytes, %v", n, readErr)
					}
					testenv.Check(t, res.Body.Close())
				}
				testenv.Is(t, <-served, blob.ErrCut, "after a pause of %s", pause)
			})
		})
	}
}
