package httpconn

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/test/testenv"
)

// pair returns a TCP connection's two ends, the first as a Conn.
func pair(t *testing.T) (*Conn, *net.TCPConn) {
	t.Helper()
	listener := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	client := testenv.Must(net.Dial("tcp", listener.Addr().String()))(t)
	accepted := testenv.Must(listener.Accept())(t)
	t.Cleanup(func() {
		_, _ = accepted.Close(), client.Close() // the test may have closed either end
		testenv.Check(t, listener.Close())
	})
	return newConn(accepted.(*net.TCPConn)), client.(*net.TCPConn)
}

// TestHold writes and sends files of random sizes, some of them held, and checks that the client
// receives all bytes in order and that nothing that is held is sent before Release.
func TestHold(t *testing.T) {
	conn, client := pair(t)
	rng := rand.New(rand.NewPCG(1, 2))
	var want []byte
	received := make(chan []byte)
	go func() {
		all, err := io.ReadAll(client)
		testenv.Check(t, err)
		received <- all
	}()
	file := filepath.Join(t.TempDir(), "file")
	for range 300 {
		next := make([]byte, rng.IntN([]int{10, 5000, 3 * maxHeld}[rng.IntN(3)]))
		for i := range next {
			next[i] = byte(rng.Uint32())
		}
		want = append(want, next...)
		before := conn.Sent()
		switch rng.IntN(3) {
		case 0:
			mustWrite(t, conn, next)
		case 1:
			mustSendFile(t, conn, file, next)
		default:
			conn.Hold()
			half := len(next) / 2
			mustWrite(t, conn, next[:half])
			if half <= maxHeld && conn.Sent() != before {
				t.Fatalf("%d bytes were sent while they were held", conn.Sent()-before)
			}
			if rng.IntN(4) == 0 {
				mustSendFile(t, conn, file, next[half:])
			} else {
				mustWrite(t, conn, next[half:])
			}
			testenv.OK(t, conn.Release())
		}
		if sent := conn.Sent() - before; sent != int64(len(next)) {
			t.Fatalf("%d of %d bytes were sent", sent, len(next))
		}
	}
	testenv.OK(t, conn.CloseWrite())
	if !bytes.Equal(<-received, want) {
		t.Error("the client received something else than was written")
	}
}

func mustWrite(t *testing.T, w io.Writer, p []byte) {
	t.Helper()
	if n, err := w.Write(p); n != len(p) || err != nil {
		t.Fatalf("%d of %d bytes, %v", n, len(p), err)
	}
}

func mustSendFile(t *testing.T, conn *Conn, path string, content []byte) {
	t.Helper()
	testenv.OK(t, os.WriteFile(path, content, 0o600))
	f := testenv.Must(os.Open(path))(t)
	if n, err := conn.ReadFrom(f); n != int64(len(content)) || err != nil {
		t.Fatalf("%d of %d bytes, %v", n, len(content), err)
	}
	testenv.OK(t, f.Close())
}

// TestHeldBytesAreLostOnce checks that a held write's error is returned, that Sent is exactly the
// number of bytes that the client receives, and that nothing follows lost bytes.
// Invariant 25.
func TestHeldBytesAreLostOnce(t *testing.T) {
	late := time.Unix(1, 0)
	for name, fail := range map[string]func(*testing.T, *Conn) error{
		"Release": func(t *testing.T, conn *Conn) error {
			conn.Hold()
			mustWrite(t, conn, make([]byte, 100))
			return errors.Join(conn.SetWriteDeadline(late), conn.Release())
		},
		"a write that is too large": func(t *testing.T, conn *Conn) error {
			conn.Hold()
			mustWrite(t, conn, make([]byte, 100))
			// The client does not read, so a part is sent.
			deadline := conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			n, err := conn.Write(make([]byte, 64<<20))
			if sent := conn.Sent(); int64(n) != max(0, sent-100) {
				t.Errorf("%d bytes were sent, and the write returned %d after 100 held ones", sent, n)
			}
			return errors.Join(deadline, err)
		},
		"a file": func(t *testing.T, conn *Conn) error {
			conn.Hold()
			mustWrite(t, conn, make([]byte, 100))
			deadline := conn.SetWriteDeadline(late)
			n, err := conn.ReadFrom(bytes.NewReader(make([]byte, 100)))
			if n != 0 {
				t.Errorf("%d bytes were sent after lost ones", n)
			}
			return errors.Join(deadline, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			conn, client := pair(t)
			testenv.Is(t, fail(t, conn), os.ErrDeadlineExceeded, "the first failure")
			testenv.OK(t, conn.SetWriteDeadline(time.Time{}))
			if n, err := conn.Write([]byte("more")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a write after lost bytes: %d bytes, %v", n, err)
			}
			testenv.Is(t, conn.Release(), os.ErrDeadlineExceeded, "Release after lost bytes")
			testenv.OK(t, conn.CloseWrite())
			received, err := io.Copy(io.Discard, client)
			if err != nil || received != conn.Sent() {
				t.Errorf("the client received %d bytes, %v, and Sent is %d", received, err, conn.Sent())
			}
		})
	}
}

// TestInsertFields checks that fields are inserted after the next response's status line only,
// however that is written.
func TestInsertFields(t *testing.T) {
	const line, fields = "HTTP/1.1 200 OK\r\n", "A: 1\r\nB: 2\r\n"
	for _, size := range []int{0, 5, maxCopied, maxHeld, 3 * maxHeld} {
		rest := "C: 3\r\n\r\n" + strings.Repeat("x", size)
		for _, first := range []int{len(line), len(line) + 3, len(line) + len(rest)} {
			for _, holds := range []bool{false, true} {
				conn, client := pair(t)
				response := []byte(line + rest)
				for _, insert := range []bool{true, false} {
					if insert {
						conn.InsertFields([]byte(fields))
					}
					if holds {
						conn.Hold()
					}
					mustWrite(t, conn, response[:first])
					mustWrite(t, conn, response[first:])
					testenv.OK(t, conn.Release())
				}
				want := line + fields + rest + line + rest
				testenv.Equal(t, conn.Sent(), int64(len(want)), "sent bytes")
				testenv.OK(t, conn.CloseWrite())
				got, err := io.ReadAll(client)
				if err != nil || string(got) != want {
					t.Errorf("first write of %d bytes, held %t: the client received %d bytes, %v, want %d", first, holds, len(got), err, len(want))
				}
			}
		}
	}
}
