package transfer

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"sluice/test/testenv"
)

// TestFlush: a response that is flushed piece by piece, with long pauses between them, arrives
// piece by piece, and ends if its client does not accept a piece within the rate's window. Over
// HTTP/2 the pauses must not end the stream.
func TestFlush(t *testing.T) {
	const pause = 2 * time.Minute // several windows
	pieces := func(served chan<- error, http2 bool, size int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			out := newWriter(w, Options{Rate: DefaultMinRate, Context: r.Context(), HTTP2: http2})
			for range 3 {
				_, err := out.Write(make([]byte, size))
				if err == nil {
					err = out.Flush()
				}
				if err != nil {
					served <- err
					panic(http.ErrAbortHandler)
				}
				time.Sleep(pause)
			}
			served <- out.Done()
		}
	}
	arrive := func(t *testing.T, body io.Reader, began time.Time) {
		t.Helper()
		for i := range 3 {
			testenv.OK(t, testenv.Error(io.ReadFull(body, make([]byte, 10))))
			testenv.Equal(t, time.Since(began), time.Duration(i)*pause, "when a piece arrives")
		}
		testenv.Equal(t, len(testenv.Must(io.ReadAll(body))(t)), 0, "bytes after the pieces")
	}
	t.Run("HTTP/1", func(t *testing.T) {
		served := make(chan error, 1)
		inBubble(t, pieces(served, false, 10), func(t *testing.T, conn net.Conn) {
			began := time.Now()
			send(t, conn, "GET / HTTP/1.0\r\n\r\n") // the body ends with the connection
			head := make([]byte, 1)
			for got := []byte{}; !bytes.HasSuffix(got, []byte("\r\n\r\n")); got = append(got, head...) {
				testenv.OK(t, testenv.Error(io.ReadFull(conn, head)))
			}
			arrive(t, conn, began)
			testenv.OK(t, <-served)
		})
	})
	t.Run("HTTP/2", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			served := make(chan error, 1)
			overPipe(t, pieces(served, true, 10), func(client *http.Client) {
				began := time.Now()
				res := testenv.Must(client.Get("http://pipe/"))(t)
				testenv.Equal(t, res.ProtoMajor, 2, "the version")
				arrive(t, res.Body, began)
				testenv.OK(t, res.Body.Close())
				testenv.OK(t, <-served)
			})
		})
	})
	t.Run("HTTP/2, not read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			served := make(chan error, 1)
			overPipe(t, pieces(served, true, 8<<20), func(client *http.Client) { // more than a window
				res := testenv.Must(client.Get("http://pipe/"))(t)
				if err := <-served; err == nil {
					t.Error("the response is complete")
				}
				testenv.OK(t, res.Body.Close())
			})
		})
	})
}
