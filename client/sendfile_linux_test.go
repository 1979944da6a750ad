package client

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/test/testenv"
)

// connected returns both ends of a TCP connection.
func connected(t *testing.T) (local, remote *net.TCPConn) {
	t.Helper()
	l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	c := testenv.Must(net.Dial("tcp", l.Addr().String()))(t)
	accepted, err := l.Accept()
	testenv.OK(t, errors.Join(err, l.Close()))
	t.Cleanup(func() { _, _ = c.Close(), accepted.Close() }) // some tests have closed them
	return c.(*net.TCPConn), accepted.(*net.TCPConn)
}

// TestSendFile sends bodies as net/http does, through a connection that sends files without copies.
func TestSendFile(t *testing.T) {
	t.Parallel()
	data := make([]byte, 12<<20) // more than a connection's buffers hold
	random := rand.NewChaCha8([32]byte{})
	testenv.OK(t, testenv.Error(random.Read(data)))
	path := filepath.Join(testenv.MemoryDir(t), "file")
	testenv.OK(t, os.WriteFile(path, data, 0o600))
	file, err := os.Open(path)
	testenv.OK(t, err)
	t.Cleanup(func() { _ = file.Close() }) // it was only read
	size := int64(len(data))
	for name, test := range map[string]struct {
		content        io.ReaderAt
		offset, length int64
		want           []byte
		err            error
	}{
		"file":                 {content: file, length: size, want: data},
		"part":                 {content: file, offset: 1 << 20, length: 100, want: data[1<<20 : 1<<20+100]},
		"part of a section":    {content: io.NewSectionReader(io.NewSectionReader(file, 1000, size), 100, size), offset: 10, length: 1000, want: data[1110:2110]},
		"bytes":                {content: bytes.NewReader(data), offset: 5, length: 1000, want: data[5:1005]},
		"file that is shorter": {content: file, offset: size - 1000, length: 2000, want: data[size-1000:], err: ErrChanged},
		"bytes that are fewer": {content: bytes.NewReader(data[:500]), length: 1000, want: data[:500], err: ErrChanged},
		"file at its end":      {content: file, offset: size, length: 1, err: ErrChanged},
		"nothing":              {content: file, offset: size},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			local, remote := connected(t)
			w := newWatchdog(t.Context(), time.Hour)
			defer w.end()
			var done int64
			p := startProgress(func(n, _ int64) { done = n }, test.length)
			body := newSentBody(test.content, test.offset, test.length, p)
			received := make(chan []byte)
			go func() {
				got, err := io.ReadAll(remote)
				if err != nil {
					t.Error(err)
				}
				received <- got
			}()
			n, err := (&fileConn{local}).ReadFrom(io.LimitReader(&watchedSource{body, w, nil}, test.length))
			testenv.Check(t, local.Close())
			if got := <-received; !bytes.Equal(got, test.want) || n != int64(len(test.want)) {
				t.Errorf("%d bytes were received, %d sent, want %d", len(got), n, len(test.want))
			}
			if !errors.Is(err, test.err) || err != nil && test.err == nil {
				t.Errorf("error %v, want %v", err, test.err)
			}
			p.end()
			testenv.Equal(t, done, int64(len(test.want)), "the progress")
			if rest, err := io.ReadAll(body); len(rest) != 0 || err != nil && test.err == nil {
				t.Errorf("%d bytes can be read again, %v", len(rest), err)
			}
		})
	}
	t.Run("end of the connection", func(t *testing.T) {
		t.Parallel()
		local, remote := connected(t)
		w := newWatchdog(t.Context(), time.Hour)
		defer w.end()
		testenv.OK(t, errors.Join(remote.SetLinger(0), remote.Close()))
		n, err := (&fileConn{local}).ReadFrom(io.LimitReader(&watchedSource{newSentBody(file, 0, size, nil), w, nil}, size))
		if err == nil || n == size {
			t.Errorf("%d bytes were sent, %v", n, err)
		}
	})
}

// TestStalledSendFile checks that an upload ends if its server accepts no bytes: the watchdog also
// watches bytes that are sent without copies.
func TestStalledSendFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(testenv.MemoryDir(t), "file")
	testenv.OK(t, os.WriteFile(path, nil, 0o600))
	testenv.OK(t, os.Truncate(path, 64<<20))               // fills buffers
	l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t) // nothing is read of its connections
	c := testenv.Must(New("http://"+l.Addr().String(), Options{MaxAttempts: 1, StallTimeout: 50 * time.Millisecond}))(t)
	if _, err := c.PutFile(t.Context(), "team", "a", path, PutOptions{PartSize: 64 << 20}); !errors.Is(err, errStalled) || !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("error %v", err)
	}
	testenv.Check(t, l.Close())
}
