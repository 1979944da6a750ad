package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/test/testenv"
)

// testFile returns a file of n bytes that differ between MiBs.
func testFile(t *testing.T, n int) (*os.File, []byte) {
	t.Helper()
	content := make([]byte, n)
	for i := range content {
		content[i] = byte(i>>20 ^ i)
	}
	path := filepath.Join(t.TempDir(), "file")
	testenv.OK(t, os.WriteFile(path, content, 0o600))
	f := testenv.Must(os.Open(path))(t)
	t.Cleanup(func() {
		testenv.Check(t, f.Close())
	})
	return f, content
}

// countingListener counts the bytes that its connections send by ReadFrom.
type countingListener struct {
	net.Listener
	sent *sentFiles
}

// sentFiles are the calls of ReadFrom with a file.
type sentFiles struct {
	sync.Mutex
	sizes []int64
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countingConn{c.(*net.TCPConn), l.sent}, nil
}

type countingConn struct {
	*net.TCPConn
	sent *sentFiles
}

func (c countingConn) ReadFrom(src io.Reader) (int64, error) {
	limited, ok := src.(*io.LimitedReader)
	if ok {
		_, ok = limited.R.(interface{ Fd() uintptr })
	}
	n, err := c.TCPConn.ReadFrom(src)
	if ok {
		c.sent.Lock()
		c.sent.sizes = append(c.sent.sizes, n)
		c.sent.Unlock()
	}
	return n, err
}

// TestWriterKeepsSendfile: files reach the connection as files, in calls of at most 1 MiB, so the
// kernel sends them.
func TestWriterKeepsSendfile(t *testing.T) {
	const size = 3<<20 + 777
	f, content := testFile(t, size)
	const from, n = 1000, 2<<20 + 5
	limited := func(n int64) *io.LimitedReader { return &io.LimitedReader{R: f, N: n} }
	for name, tc := range map[string]struct {
		send func(w *Writer) (int64, error)
		want []byte
		file bool
	}{
		"the whole file": {func(w *Writer) (int64, error) { return io.Copy(w, f) }, content, true},
		"its end":        {func(w *Writer) (int64, error) { return w.ReadFrom(f) }, content, true},
		"a range": {func(w *Writer) (int64, error) {
			testenv.Check(t, testenv.Error(f.Seek(from, io.SeekStart)))
			source := limited(n)
			m, err := w.ReadFrom(source)
			testenv.Equal(t, source.N, 0, "the bytes that are reported as left")
			return m, err
		}, content[from : from+n], true},
		"a copied range": {func(w *Writer) (int64, error) {
			testenv.Check(t, testenv.Error(f.Seek(from, io.SeekStart)))
			return io.CopyN(w, f, n)
		}, content[from : from+n], true},
		"beyond the end": {func(w *Writer) (int64, error) { return w.ReadFrom(limited(size * 2)) }, content, true},
		"exactly 2 MiB":  {func(w *Writer) (int64, error) { return w.ReadFrom(limited(2 << 20)) }, content[:2<<20], true},
		"nothing":        {func(w *Writer) (int64, error) { return w.ReadFrom(limited(0)) }, nil, false},
		"other readers":  {func(w *Writer) (int64, error) { return io.Copy(w, readerOnly{f}) }, content, false},
		"limited other readers": {func(w *Writer) (int64, error) {
			return io.Copy(w, io.LimitReader(readerOnly{f}, n))
		}, content[:n], false},
		"bytes": {func(w *Writer) (int64, error) {
			m, err := w.Write(content)
			return int64(m), err
		}, content, false},
	} {
		sent := &sentFiles{}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(hw http.ResponseWriter, _ *http.Request) {
			hw.Header().Set("Content-Length", fmt.Sprint(len(tc.want)))
			testenv.Check(t, testenv.Error(f.Seek(0, io.SeekStart)))
			w := newWriter(hw, Options{Rate: DefaultMinRate})
			n, err := tc.send(w)
			if err != nil || n != int64(len(tc.want)) || w.written != n {
				t.Errorf("%s: %d bytes, %d counted, %v", name, n, w.written, err)
			}
			testenv.Check(t, w.Done())
		}))
		server.Listener = countingListener{server.Listener, sent}
		server.Start()
		response := testenv.Must(http.Get(server.URL))(t)
		got, err := io.ReadAll(response.Body)
		if err != nil || !bytes.Equal(got, tc.want) {
			t.Errorf("%s: received %d bytes, %v", name, len(got), err)
		}
		server.Close() // and so the handler has ended
		var total int64
		for _, n := range sent.sizes {
			total += n
			if n > writeChunk {
				t.Errorf("%s: %d bytes in one call", name, n)
			}
		}
		// The first 512 bytes are net/http's own copy, with the header.
		if tc.file && total < int64(len(tc.want))-512 || !tc.file && total > 0 {
			t.Errorf("%s: %d of %d bytes were sent as a file", name, total, len(tc.want))
		}
	}
}

// TestResponsePace checks the real limits: 1 MiB may take 1024 seconds. How long the whole
// response takes, or the handler between two writes, or the source, does not count.
func TestResponsePace(t *testing.T) {
	const mib = 1 << 20
	content := bytes.Repeat([]byte("x"), 4*mib)
	const size = 4 * mib
	whole := func(w *Writer) error { _, err := w.Write(content); return err }
	for name, tc := range map[string]struct {
		write func(w *Writer) error
		wait  time.Duration // the client's, before each MiB that it reads
		slow  bool
		fast  int // number of MiB that it reads at a time
	}{
		"well":               {whole, 0, false, 0},
		"at the rate":        {whole, 500 * time.Second, false, 0},
		"below the rate":     {whole, 1100 * time.Second, true, 0},
		"a stalled client":   {whole, 24 * time.Hour, true, 0},
		"fast, then stalled": {whole, 1500 * time.Second, true, 3},
		"small writes": {func(w *Writer) error {
			for i := 0; i < size; i += 4 << 10 {
				if _, err := w.Write(content[i : i+4<<10]); err != nil {
					return err
				}
			}
			return nil
		}, 29 * time.Second, false, 0},
		"small writes, too slow": {func(w *Writer) error {
			_, err := w.Write(content[:100<<10])
			if err == nil {
				_, err = w.Write(content[100<<10 : 110<<10])
			}
			return err
		}, 2000 * time.Second, true, 0},
		"a slow source": {func(w *Writer) error {
			_, err := w.ReadFrom(&slowSource{bytes.NewReader(content), time.Hour})
			return err
		}, 0, false, 0},
		"a slow handler": {func(w *Writer) error {
			for i := 0; i < size; i += mib {
				time.Sleep(time.Hour)
				if _, err := w.Write(content[i : i+mib]); err != nil {
					return err
				}
			}
			return nil
		}, 0, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var result error
			inBubble(t, func(hw http.ResponseWriter, _ *http.Request) {
				hw.Header().Set("Content-Length", fmt.Sprint(size))
				w := newWriter(hw, Options{Rate: DefaultMinRate})
				result = tc.write(w)
				if err := w.Done(); err != nil && result == nil {
					t.Error(err)
				}
			}, func(t *testing.T, conn net.Conn) {
				send(t, conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
				var err error
				for i := 0; err == nil; i++ {
					if i >= tc.fast {
						time.Sleep(tc.wait)
					}
					_, err = io.CopyN(io.Discard, conn, mib)
				}
				synctest.Wait() // for the handler
				if tc.slow != errors.Is(result, ErrSlowReader) || !tc.slow && result != nil {
					t.Errorf("%v, slow %v", result, tc.slow)
				}
			})
		})
	}
}

// slowSource waits before each read.
type slowSource struct {
	src  io.Reader
	wait time.Duration
}

func (s *slowSource) Read(p []byte) (int, error) {
	time.Sleep(s.wait)
	return s.src.Read(p)
}

// TestWriterDone: after Done, bytes in the server's buffer do not block it.
func TestWriterDone(t *testing.T) {
	inBubble(t, func(hw http.ResponseWriter, _ *http.Request) {
		w := newWriter(hw, Options{Rate: DefaultMinRate})
		testenv.Check(t, testenv.Error(w.Write([]byte("hello"))))
		testenv.Check(t, w.Done())
	}, func(t *testing.T, conn net.Conn) {
		send(t, conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		synctest.Wait()              // for the handler
		time.Sleep(31 * time.Second) // without reading
		if got, err := io.ReadAll(conn); len(got) != 0 || err != nil {
			t.Errorf("the response %q was sent after its deadline, %v", got, err)
		}
	})
}

func TestWriterWithoutDeadlines(t *testing.T) {
	recorder := httptest.NewRecorder()
	w := newWriter(recorder, Options{Rate: DefaultMinRate})
	f, content := testFile(t, 10)
	_, err := io.Copy(w, f)
	if _, err2 := w.Write(nil); err != nil || err2 != nil || w.written != 10 || !bytes.Equal(recorder.Body.Bytes(), content) {
		t.Errorf("%v, %v, %d bytes, %q", err, err2, w.written, recorder.Body)
	}
	testenv.Check(t, w.Done())
	if err := http.NewResponseController(w).Flush(); err != nil || !recorder.Flushed {
		t.Error("the guarded ResponseWriter cannot be flushed")
	}
}

// brokenWriter is a ResponseWriter that writes only a part of each argument.
type brokenWriter struct{ *httptest.ResponseRecorder }

func (brokenWriter) Write([]byte) (int, error) { return 3, io.ErrClosedPipe }

// TestCountAfterABrokenWrite checks how many bytes are counted if a write fails: over HTTP/1 the
// written ones, and over HTTP/2, which does not report them, all.
func TestCountAfterABrokenWrite(t *testing.T) {
	for http2, want := range map[bool]int{false: 3, true: 10} {
		w := newWriter(brokenWriter{httptest.NewRecorder()}, Options{Rate: DefaultMinRate, HTTP2: http2})
		n, err := w.Write(make([]byte, 10))
		if n != want || w.Written() != int64(want) || !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("HTTP/2 %t: %d bytes, %d in total, %v, want %d", http2, n, w.Written(), err, want)
		}
	}
}
