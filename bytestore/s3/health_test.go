package s3_test

import (
	"context"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/s3"
	"sluice/test/testclock"
	"sluice/test/testenv"
)

// TestErr checks that a Put is reported if the server makes it fail, until another succeeds, and
// for at most 30 s. Nothing else is reported.
func TestErr(t *testing.T) {
	clock := testclock.New()
	s, _, w := onWire(t, s3.Options{StagingLimit: mib, Now: clock.Now})
	fail := func() {
		t.Helper()
		w.handle(times(always, http.MethodPut, respondsWith(403, "AccessDenied")))
		if err := put(t, s, newName(), nil); err == nil {
			t.Fatal("the put succeeded")
		}
		w.handle(nil)
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "AccessDenied") {
			t.Fatalf("Err after a failure: %v", err)
		}
	}
	wantErr(t, s.Err(), nil)
	fail()
	if err := s.Ready(t.Context()); err == nil {
		t.Error("ready after a failure")
	}
	clock.Advance(29 * time.Second)
	if s.Err() == nil {
		t.Error("the failure is forgotten after 29 s")
	}
	clock.Advance(time.Second)
	wantErr(t, s.Err(), nil)
	wantErr(t, s.Ready(t.Context()), nil)

	fail()
	name := mustPut(t, s, nil)
	wantErr(t, s.Err(), nil)

	over, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, s.Put(over, newName(), strings.NewReader(""), 0), context.Canceled)
	wantErr(t, put(t, s, name, nil), bytestore.ErrExists)
	wantErr(t, put(t, s, newName(), make([]byte, 2*mib)), bytestore.ErrOverloaded)
	wantErr(t, s.Put(t.Context(), newName(), strings.NewReader("a"), 2), bytestore.ErrSize)
	wantErr(t, s.Err(), nil)
}

func TestReadyChecksTheBucket(t *testing.T) {
	s, _, w := onWire(t, s3.Options{})
	wantErr(t, s.Ready(t.Context()), nil)
	if got := w.requests(); len(got) != 1 || got[0] != "HEAD" {
		t.Errorf("requests: %v", got)
	}
	w.handle(respondsWith(404, "NoSuchBucket"))
	if err := s.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "no bucket") {
		t.Errorf("without the bucket: %v", err)
	}
	w.handle(respondsWith(503, "SlowDown"))
	wantErr(t, s.Ready(t.Context()), bytestore.ErrOverloaded)
	w.handle(func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	bounded, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	wantErr(t, s.Ready(bounded), context.DeadlineExceeded)
}

func TestClose(t *testing.T) {
	s, _, w := onWire(t, s3.Options{})
	name := mustPut(t, s, content(1, 1000))
	r, err := s.Open(t.Context(), name, 0, 1000)
	testenv.OK(t, err)
	// Close waits for a Put in progress.
	entered, release, closed := make(chan bool), make(chan bool), make(chan error, 1)
	w.handle(times(1, http.MethodPut, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		entered <- true
		<-release
		if len(closed) > 0 {
			t.Error("Close did not wait")
		}
		return next.RoundTrip(r)
	}))
	putErr := make(chan error)
	go func() { putErr <- s.Put(context.Background(), newName(), strings.NewReader("x"), 1) }()
	<-entered
	go func() { closed <- s.Close() }()
	close(release)
	wantErr(t, <-putErr, nil)
	wantErr(t, <-closed, nil)

	wantErr(t, s.Close(), nil)
	wantErr(t, put(t, s, newName(), nil), fs.ErrClosed)
	wantErr(t, s.Delete(t.Context(), name), fs.ErrClosed)
	wantErr(t, s.List(t.Context(), "", nil), fs.ErrClosed)
	wantErr(t, s.Ready(t.Context()), fs.ErrClosed)
	if _, err := s.Open(t.Context(), name, 0, 1); err == nil {
		t.Error("Open after Close")
	}
	if n, err := r.Read(make([]byte, 10)); n == 0 || err != nil {
		t.Errorf("a reader that was open reads %d, %v", n, err)
	}
	wantErr(t, r.Close(), nil)
}
