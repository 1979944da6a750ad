package transfer

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"sluice/blob"
	"sluice/test/testenv"
)

// TestCutEndsBodies cuts a body that waits for its client, one between two reads, and one that is
// read for the first time after the cut. Each must fail with the Cut's error, which reports whether
// it cut a body.
func TestCutEndsBodies(t *testing.T) {
	draining := errors.New("draining")
	for name, tc := range map[string]struct {
		readBefore int64
		waits      bool // the handler waits for the cut, not for the client
		active     bool
	}{
		"waiting for the client": {readBefore: 3, active: true},
		"between two reads":      {readBefore: 3, waits: true, active: true},
		"not read yet":           {waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			var cut *Cut
			var goOn chan struct{}
			var result error
			inBubble(t, func(w http.ResponseWriter, r *http.Request) {
				body := newReader(w, r.Body, Options{Rate: DefaultMinRate, Context: r.Context(), Cut: cut})
				if n, err := io.CopyN(io.Discard, body, tc.readBefore); n != tc.readBefore || err != nil {
					t.Errorf("%d bytes before the cut, %v", n, err)
				}
				if tc.waits {
					<-goOn
				}
				_, result = body.Read(make([]byte, 10))
				if _, again := body.Read(make([]byte, 10)); !errors.Is(again, draining) {
					t.Errorf("the next read returns %v, want %v", again, draining)
				}
				body.Done()
				body.Done()
				if n := cut.bodies.Load(); n != 0 {
					t.Errorf("%d bodies are counted after the end of the only one", n)
				}
			}, func(t *testing.T, conn net.Conn) {
				cut, goOn = NewCut(draining), make(chan struct{})
				send(t, conn, putHead(10)+"abc")
				synctest.Wait() // for the handler
				testenv.Equal(t, cut.Now(), tc.active, "a body was being received")
				close(goOn)
				synctest.Wait() // for the handler
				if !errors.Is(result, draining) || errors.Is(result, ErrSlowBody) {
					t.Errorf("the body fails with %v, want %v", result, draining)
				}
			})
		})
	}
}

// TestCutWithoutBodies checks that a Cut does not report bodies that have ended: completely,
// aborted by the client, or abandoned by their handler. They keep their own errors.
func TestCutWithoutBodies(t *testing.T) {
	draining := errors.New("draining")
	for name, tc := range map[string]struct {
		sent string
		read int64 // at most
		want error
	}{
		"complete":             {"0123456789", 20, io.EOF},
		"closed by the client": {"abc", 20, blob.ErrIncompleteBody},
		"abandoned":            {"abc", 3, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cut, result := NewCut(draining), make(chan error, 1)
			conn := serveLoopback(t, func(w http.ResponseWriter, r *http.Request) {
				body := newReader(w, r.Body, Options{Rate: DefaultMinRate, Context: r.Context(), Cut: cut})
				_, err := io.CopyN(io.Discard, body, tc.read)
				body.Done()
				result <- err
			})
			send(t, conn, putHead(10)+tc.sent)
			testenv.OK(t, conn.CloseWrite())
			if err := <-result; !errors.Is(err, tc.want) || errors.Is(err, draining) {
				t.Errorf("the body ends with %v, want %v", err, tc.want)
			}
			if cut.Now() {
				t.Error("the cut reports a body that has ended")
			}
		})
	}
}

// TestCutWithoutDeadlines checks that a body over a connection without deadlines is cut at its next
// read.
func TestCutWithoutDeadlines(t *testing.T) {
	draining := errors.New("draining")
	cut := NewCut(draining)
	body := newReader(httptest.NewRecorder(), io.NopCloser(strings.NewReader("hello")), Options{Rate: DefaultMinRate, Cut: cut})
	if n, err := body.Read(make([]byte, 2)); n != 2 || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	testenv.Equal(t, cut.Ended(), false, "whether the cut has ended before it")
	if !cut.Now() {
		t.Error("the cut does not report the body")
	}
	testenv.Equal(t, cut.Ended(), true, "whether the cut has ended")
	if n, err := body.Read(make([]byte, 2)); n != 0 || !errors.Is(err, draining) {
		t.Errorf("%d bytes after the cut, %v", n, err)
	}
	body.Done()
}
