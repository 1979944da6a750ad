package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"sluice/blob"
	"sluice/test/testenv"
)

func TestPace(t *testing.T) {
	if got := DefaultMinRate.BytesPerSecond(); got != 1024 {
		t.Errorf("%d bytes/s", got)
	}
	for n, want := range map[int64]time.Duration{0: 30 * time.Second, 1: 30 * time.Second, 30 << 10: 30 * time.Second, 60 << 10: time.Minute, 1 << 20: 1024 * time.Second} {
		if got := DefaultMinRate.timeFor(n); got != want {
			t.Errorf("%d bytes: %v, want %v", n, got, want)
		}
	}
	if got := DefaultMinRate.timeFor(1 << 62); got <= 0 {
		t.Errorf("2^62 bytes: %v", got)
	}
}

// serveLoopback serves one connection by a real server with handle and returns the client's end,
// which has a deadline.
func serveLoopback(t *testing.T, handle http.HandlerFunc) *net.TCPConn {
	t.Helper()
	server := httptest.NewServer(handle)
	conn := testenv.Must(net.Dial("tcp", server.Listener.Addr().String()))(t)
	t.Cleanup(func() {
		if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		server.Close()
	})
	testenv.OK(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn.(*net.TCPConn)
}

// send writes to a connection.
func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	testenv.OK(t, testenv.Error(io.WriteString(conn, text)))
}

// putHead returns a request's head with a body of n bytes.
func putHead(n int) string {
	return fmt.Sprintf("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", n)
}

// shortRate is a minimum rate that a stalled client misses immediately, and that a busy machine
// achieves.
var shortRate = MinRate{Bytes: 1 << 10, Window: 200 * time.Millisecond}

// TestContextOutlivesBodyDeadline: after the body the request's context stays alive, however long
// the handler runs, although the body had a deadline; and the connection can be used again.
func TestContextOutlivesBodyDeadline(t *testing.T) {
	for name, tc := range map[string]struct {
		request string
		unread  bool
	}{
		"with a length":  {putHead(5) + "hello", false},
		"chunked":        {"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", false},
		"empty":          {putHead(0), false},
		"empty, chunked": {"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
		"none":           {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", false},
		"none, not read": {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := make(chan error, 2)
			conn := serveLoopback(t, func(w http.ResponseWriter, r *http.Request) {
				body := newReader(w, r.Body, Options{Rate: shortRate})
				defer body.Done()
				if !tc.unread {
					if _, err := io.Copy(io.Discard, body); err != nil {
						result <- err
						return
					}
				}
				// Neither a read after the end nor the guard's end sets a deadline again.
				if r.URL.Path == "/again" {
					if _, err := body.Read(make([]byte, 1)); !tc.unread && !errors.Is(err, io.EOF) {
						result <- err
						return
					}
					body.Done()
				}
				select {
				case <-r.Context().Done():
					result <- context.Cause(r.Context())
				case <-time.After(3 * shortRate.Window):
					result <- nil
				}
			})
			for _, path := range []string{"/", "/again"} {
				send(t, conn, strings.Replace(tc.request, "/", path, 1))
				if err := <-result; err != nil {
					t.Errorf("%v", err)
				}
				buffer := make([]byte, 15)
				if _, err := io.ReadFull(conn, buffer); err != nil || string(buffer) != "HTTP/1.1 200 OK" {
					t.Fatalf("response %q, %v", buffer, err)
				}
				// This is the head's rest; there is no body.
				testenv.OK(t, testenv.Error(conn.Read(make([]byte, 4<<10))))
			}
		})
	}
}

// pipeListener is a listener without a network: its connections are unbuffered pipes that obey a
// synctest bubble's time.
type pipeListener struct {
	conns chan net.Conn
	ended context.Context
	end   context.CancelFunc
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended.Done():
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.end(); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// servePipes serves HTTP over pipes, and returns a function that connects a client.
func servePipes(t *testing.T, server *http.Server) (connect func() net.Conn) {
	t.Helper()
	l := &pipeListener{conns: make(chan net.Conn)}
	l.ended, l.end = context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		testenv.Check(t, server.Close())
		testenv.Is(t, <-served, http.ErrServerClosed, "the server")
	})
	return func() net.Conn {
		near, far := net.Pipe()
		l.conns <- far
		return near
	}
}

// inBubble runs client against a server with handle, in a synctest bubble.
func inBubble(t *testing.T, handle http.HandlerFunc, client func(t *testing.T, conn net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		conn := servePipes(t, &http.Server{Handler: handle})()
		client(t, conn)
		testenv.Check(t, conn.Close())
	})
}

// TestBodyPace: the real limits, to the byte and to the second.
func TestBodyPace(t *testing.T) {
	type piece struct {
		wait  time.Duration
		bytes int
	}
	repeat := func(n int, p piece) (pieces []piece) {
		for range n {
			pieces = append(pieces, p)
		}
		return pieces
	}
	for name, tc := range map[string]struct {
		pieces []piece
		pause  time.Duration // the handler's, between two reads
		slow   bool
	}{
		"immediately":                   {pieces: []piece{{0, 1 << 20}}},
		"the last second":               {pieces: []piece{{29 * time.Second, 100}}},
		"too late":                      {pieces: []piece{{31 * time.Second, 100}}, slow: true},
		"exactly the rate, for an hour": {pieces: repeat(120, piece{29 * time.Second, 30 << 10})},
		"byte by byte at the rate":      {pieces: repeat(1200, piece{100 * time.Millisecond, 110})},
		"byte by byte below the rate":   {pieces: repeat(40, piece{time.Second, 1000}), slow: true},
		"one fast window, then none":    {pieces: []piece{{20 * time.Second, 30 << 10}, {31 * time.Second, 1}}, slow: true},
		"a late burst":                  {pieces: []piece{{29 * time.Second, 1 << 20}, {29 * time.Second, 1 << 20}}},
		"a slow handler":                {pieces: repeat(5, piece{10 * time.Second, 100}), pause: time.Hour},
		"the handler pauses, and the client is too slow": {pieces: repeat(5, piece{time.Hour + 10*time.Second, 100}), pause: time.Hour, slow: true},
	} {
		t.Run(name, func(t *testing.T) {
			total := 0
			for _, p := range tc.pieces {
				total += p.bytes
			}
			var result error
			inBubble(t, func(w http.ResponseWriter, r *http.Request) {
				body := newReader(w, r.Body, Options{Rate: DefaultMinRate})
				defer body.Done()
				n, buffer := 0, make([]byte, 4<<10)
				for result == nil {
					var m int
					m, result = body.Read(buffer)
					n += m
					time.Sleep(tc.pause)
				}
				if errors.Is(result, io.EOF) && n != total {
					result = io.ErrShortWrite
				}
			}, func(t *testing.T, conn net.Conn) {
				wrote := make(chan bool)
				go func() {
					defer close(wrote)
					if _, err := io.WriteString(conn, putHead(total)); err != nil {
						return // the server cut it
					}
					for _, p := range tc.pieces {
						time.Sleep(p.wait)
						if _, err := conn.Write(bytes.Repeat([]byte("x"), p.bytes)); err != nil {
							return
						}
					}
				}()
				if _, err := conn.Read(make([]byte, 4<<10)); err != nil && !tc.slow {
					t.Error(err)
				}
				<-wrote
				synctest.Wait() // for the handler
				want := io.EOF
				if tc.slow {
					want = ErrSlowBody
				}
				if !errors.Is(result, want) {
					t.Errorf("%v, want %v", result, want)
				}
			})
		})
	}
}

// TestDrainDependsOnWhatIsLeft checks that Drain refuses a body if more than 256 KiB of it are
// left, and reads it if less is left, however long it is in all.
func TestDrainDependsOnWhatIsLeft(t *testing.T) {
	const length = drainLimit + 1000
	for read, want := range map[int64]bool{999: false, 1001: true} {
		body := newReader(httptest.NewRecorder(), io.NopCloser(strings.NewReader(strings.Repeat("x", length))), Options{Rate: DefaultMinRate})
		if n, err := io.CopyN(io.Discard, body, read); n != read || err != nil {
			t.Fatal(n, err)
		}
		if got := body.Drain(length); got != want {
			t.Errorf("after %d of %d bytes: drained %t", read, length, got)
		}
		body.Done()
	}
}

// closedConn is the ResponseWriter for a connection that was closed.
type closedConn struct{ *httptest.ResponseRecorder }

func (closedConn) SetReadDeadline(time.Time) error { return net.ErrClosed }

// TestDrainLeavesAFailedBodyAlone checks that Drain does not read a body that has failed, was
// abandoned, or cannot have a deadline: nothing would bound the time that this takes.
func TestDrainLeavesAFailedBodyAlone(t *testing.T) {
	const text = "the rest of the body"
	for name, tc := range map[string]struct {
		w    http.ResponseWriter
		fail func(*Reader)
	}{
		"abandoned": {httptest.NewRecorder(), (*Reader).Abandon},
		"failed": {httptest.NewRecorder(), func(r *Reader) {
			src := r.body
			r.body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))
			if _, err := r.Read(make([]byte, 1)); !errors.Is(err, blob.ErrIncompleteBody) {
				t.Errorf("error %v, want %v", err, blob.ErrIncompleteBody)
			}
			r.body = src
		}},
		"without a deadline": {closedConn{httptest.NewRecorder()}, func(*Reader) {}},
	} {
		src := strings.NewReader(text)
		body := newReader(tc.w, io.NopCloser(src), Options{Rate: DefaultMinRate})
		tc.fail(body)
		if body.Drain(int64(len(text))) || src.Len() != len(text) {
			t.Errorf("%s: %d of %d bytes were read", name, len(text)-src.Len(), len(text))
		}
	}
}

// TestAbandon checks that nothing is read from an abandoned body, and that a body that was read to
// its end has ended nevertheless.
func TestAbandon(t *testing.T) {
	for complete, want := range map[bool]error{false: ErrSlowBody, true: io.EOF} {
		body := newReader(httptest.NewRecorder(), io.NopCloser(strings.NewReader("hello")), Options{Rate: DefaultMinRate})
		if complete {
			testenv.OK(t, testenv.Error(io.Copy(io.Discard, body)))
		}
		body.Abandon()
		n, err := body.Read(make([]byte, 10))
		if n != 0 || !errors.Is(err, want) || body.Ended() != complete {
			t.Errorf("complete %t: %d bytes, %v, want %v; ended %t", complete, n, err, want, body.Ended())
		}
	}
}
