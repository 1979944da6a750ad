package transfer

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"testing"

	"sluice/internal/httpconn"
	"sluice/test/testenv"
)

// adopted starts a server that calls handle with the connection that httpconn has adopted.
func adopted(t *testing.T, handle func(http.ResponseWriter, *http.Request, *httpconn.Conn)) *httptest.Server {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn := httpconn.FromContext(r.Context()); conn != nil {
			handle(w, r, conn)
		} else {
			t.Error("the connection was not adopted")
		}
	}))
	server.Listener = httpconn.Adopt(server.Config, []net.Listener{server.Listener}, runtime.Version(), slog.New(slog.DiscardHandler))[0]
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// TestEndOfABodyIsHeld sends bodies over one connection, and checks which part each write holds
// back until Send: the body's end, if its length is declared and nothing wraps the response. While
// the end is held, Unsent counts the body's bytes that have not left the process.
func TestEndOfABodyIsHeld(t *testing.T) {
	const large, small = 64 << 10, 1000 // small is more than the headers
	for _, c := range []struct {
		declared bool
		wrapped  bool
		held     bool
	}{
		{declared: true, held: true},
		{declared: true, wrapped: true},
		{declared: false},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			server := adopted(t, func(w http.ResponseWriter, r *http.Request, conn *httpconn.Conn) {
				before := conn.Sent()
				out := newWriter(w, Options{Rate: DefaultMinRate, Context: r.Context(), Conn: conn})
				testenv.Equal(t, out.CanInsert(), true, "whether fields can be inserted")
				if c.wrapped {
					out.Wrap(func(w http.ResponseWriter) http.ResponseWriter { return w })
				}
				if c.declared {
					out.Header().Set("Content-Length", strconv.Itoa(large+small))
				}
				out.WriteHeader(http.StatusOK)
				testenv.Equal(t, testenv.Must(out.Write(make([]byte, large)))(t), large, "bytes in the first write")
				testenv.Equal(t, out.holds, false, "whether the body's beginning is held")
				testenv.Equal(t, testenv.Must(out.Write(make([]byte, small)))(t), small, "bytes in the second write")
				testenv.Equal(t, out.holds, c.held, "whether the body's end is held")
				if c.held {
					unsent := large + small - (conn.Sent() - before)
					testenv.Equal(t, unsent > 0, true, "whether bytes are unsent")
					testenv.Equal(t, out.Unsent(), unsent, "unsent bytes while the end is held")
				}
				if c.wrapped {
					testenv.Equal(t, out.Unsent(), 0, "unsent bytes behind a wrapper")
				}
				testenv.Check(t, out.Done())
				testenv.Equal(t, out.holds, false, "whether the end is held after Done")
				if c.declared {
					testenv.Equal(t, out.Unsent(), 0, "unsent bytes in the end")
				}
			})
			for range 2 { // the second response follows the bytes of the first one
				r := testenv.Must(server.Client().Get(server.URL))(t)
				body, err := io.ReadAll(r.Body)
				testenv.OK(t, err)
				testenv.OK(t, r.Body.Close())
				if !bytes.Equal(body, make([]byte, large+small)) {
					t.Fatalf("the client received %d bytes, want %d zeros", len(body), large+small)
				}
			}
		})
	}
}

// TestHeldEndThatIsLost closes the connection while it holds a body's end. Done reports that.
func TestHeldEndThatIsLost(t *testing.T) {
	server := adopted(t, func(w http.ResponseWriter, r *http.Request, conn *httpconn.Conn) {
		out := newWriter(w, Options{Rate: DefaultMinRate, Context: r.Context(), Conn: conn})
		out.Header().Set("Content-Length", "5")
		out.WriteHeader(http.StatusOK)
		testenv.Equal(t, testenv.Must(out.Write([]byte("hello")))(t), 5, "bytes in the write")
		testenv.Check(t, conn.Close())
		testenv.Is(t, out.Send(), net.ErrClosed, "Send")
	})
	if r, err := server.Client().Get(server.URL); err == nil {
		testenv.Check(t, r.Body.Close())
		t.Error("the client received a response")
	}
}
