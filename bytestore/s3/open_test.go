package s3_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"sluice/bytestore"
	"sluice/bytestore/s3"
	"sluice/test/testenv"
)

const mib = 1 << 20

// TestRequestsOfARead checks that a small range costs one request and a large one a request for
// each 4 MiB, and that no other bytes are requested.
func TestRequestsOfARead(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{})
	data := content(1, 16*mib)
	name := mustPut(t, aside, data)
	for _, tc := range []struct {
		off, n int64
		want   []string
	}{
		{0, 0, []string{"HEAD"}},
		{16 * mib, 0, []string{"HEAD"}},
		{0, 1, []string{"GET bytes=0-0"}},
		{5, 100, []string{"GET bytes=5-104"}},
		{7, 4 * mib, []string{"GET bytes=7-4194310"}},
		{0, 16 * mib, []string{"GET bytes=0-4194303", "GET bytes=4194304-8388607", "GET bytes=8388608-12582911", "GET bytes=12582912-16777215"}},
		{16*mib - 1, 1, []string{"GET bytes=16777215-16777215"}},
	} {
		w.handle(nil)
		got := testenv.Must(read(t.Context(), s, name, tc.off, tc.n))(t)
		if !bytes.Equal(got, data[tc.off:tc.off+tc.n]) {
			t.Errorf("%d bytes at %d: wrong bytes", tc.n, tc.off)
		}
		requests := w.requests()
		slices.SortFunc(requests, func(a, b string) int { return len(a) - len(b) })
		if !slices.Equal(requests, tc.want) {
			t.Errorf("%d bytes at %d: %v, want %v", tc.n, tc.off, requests, tc.want)
		}
	}
}

func TestRequestsOfAPut(t *testing.T) {
	s, _, w := onWire(t, s3.Options{})
	for _, size := range []int{0, 1, 16 * mib} {
		w.handle(nil)
		mustPut(t, s, content(1, size))
		if got := w.requests(); !slices.Equal(got, []string{"PUT"}) {
			t.Errorf("%d bytes: %v", size, got)
		}
	}
}

// TestBrokenResponsesAreResumed cuts responses at many positions. The bytes must be correct, and
// bytes that were received must not be requested again.
func TestBrokenResponsesAreResumed(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{})
	data := content(1, 10*mib)
	name := mustPut(t, aside, data)
	for _, cut := range []int64{0, 1, 1000, 1 * mib, 4*mib - 1} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			w.handle(times(3, http.MethodGet, cutResponse(cut)))
			wantObject(t, s, name, data)
		})
	}
	w.handle(times(5, http.MethodGet, cutResponse(0))) // as often as a response is resumed
	testenv.Is(t, testenv.Error(read(t.Context(), s, name, 10, 1000)), nil, "after five interrupted responses")
	w.handle(times(1, http.MethodGet, cutResponse(100)))
	testenv.Must(read(t.Context(), s, name, 10, 1000))(t)
	if got := w.requests(); !slices.Equal(got, []string{"GET bytes=10-1009", "GET bytes=110-1009"}) {
		t.Errorf("%v", got)
	}
}

// TestResponsesThatAlwaysBreak checks that the reader fails after a bounded number of requests, and
// that the bytes before that are correct.
func TestResponsesThatAlwaysBreak(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{})
	data := content(1, 6*mib)
	name := mustPut(t, aside, data)
	for _, cut := range []int64{0, 10_000} {
		w.handle(times(always, http.MethodGet, cutResponse(cut)))
		r := testenv.Must(s.Open(t.Context(), name, 0, int64(len(data))))(t)
		got, err := io.ReadAll(r)
		wantErr(t, err, bytestore.ErrOverloaded)
		wantErr(t, err, io.ErrUnexpectedEOF)
		if !bytes.Equal(got, data[:len(got)]) {
			t.Errorf("the %d bytes before the failure are wrong", len(got))
		}
		wantErr(t, r.Close(), nil)
		if n := len(w.requests()); n > 20 {
			t.Errorf("%d requests", n)
		}
	}
}

// TestResumesPause checks that a broken response is resumed after a pause, which ends with the
// context.
func TestResumesPause(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{})
	data := content(1, 10_000)
	name := mustPut(t, aside, data)
	unit, limit := minio.DefaultRetryUnit, minio.DefaultRetryCap
	defer func() { minio.DefaultRetryUnit, minio.DefaultRetryCap = unit, limit }()

	minio.DefaultRetryUnit, minio.DefaultRetryCap = 40*time.Millisecond, 80*time.Millisecond
	w.handle(times(always, http.MethodGet, cutResponse(0)))
	begun := time.Now()
	wantErr(t, testenv.Error(read(t.Context(), s, name, 0, int64(len(data)))), bytestore.ErrOverloaded)
	// Half of 40, and four times of 80, at least.
	if took := time.Since(begun); took < 180*time.Millisecond {
		t.Errorf("%d requests in %v", len(w.requests()), took)
	}

	minio.DefaultRetryUnit, minio.DefaultRetryCap = time.Hour, time.Hour
	for _, cut := range []int64{0, 100} {
		brokeOff := make(chan bool, 10)
		w.handle(times(always, http.MethodGet, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			resp, err := cutResponse(cut)(r, next)
			if err == nil {
				resp.Body = closing{resp.Body, brokeOff}
			}
			return resp, err
		}))
		ctx, cancel := context.WithCancel(t.Context())
		r, err := s.Open(ctx, name, 0, int64(len(data)))
		wantErr(t, err, nil)
		ended := make(chan error)
		go func() {
			_, err := io.ReadAll(r)
			ended <- err
		}()
		<-brokeOff
		cancel()
		wantErr(t, <-ended, context.Canceled)
		wantErr(t, r.Close(), nil)
		testenv.Equal(t, len(w.requests()), 1, "requests within an hour, cut after %d bytes", cut)
	}
}

// closing reports when a response is closed.
type closing struct {
	io.ReadCloser
	closed chan<- bool
}

func (c closing) Close() error {
	c.closed <- true
	return c.ReadCloser.Close()
}

// TestReplacedWhileReading checks that a resumed read gets bytes from the object's same version, or
// fails.
func TestReplacedWhileReading(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{})
	name := mustPut(t, aside, content(1, 10*mib))
	w.handle(times(1, http.MethodGet, cutResponse(1000)))
	r := testenv.Must(s.Open(t.Context(), name, 0, mib))(t)
	wantErr(t, aside.Delete(t.Context(), name), nil)
	wantErr(t, put(t, aside, name, content(2, 10*mib)), nil)
	got, err := io.ReadAll(r)
	wantErr(t, err, bytestore.ErrNotFound)
	if !bytes.Equal(got, content(1, 1000)) {
		t.Errorf("%d bytes before the failure", len(got))
	}
	wantErr(t, r.Close(), nil)
}

// TestTruncatedObject checks that an object shorter than the range is distinguished from a broken
// response, even if it was truncated in between.
func TestTruncatedObject(t *testing.T) {
	s, _, _ := onWire(t, s3.Options{})
	name := mustPut(t, s, content(1, 5*mib))
	for _, r := range [][2]int64{{0, 5*mib + 1}, {5 * mib, 1}, {4 * mib, 2 * mib}, {0, 16 * mib}, {1, math.MaxInt64}} {
		wantErr(t, testenv.Error(s.Open(t.Context(), name, r[0], r[1])), bytestore.ErrTruncated)
	}
}

// TestRangesArePrefetched checks that three requests are prefetched concurrently before the first
// byte is read.
func TestRangesArePrefetched(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{})
	data := content(1, 24*mib)
	name := mustPut(t, aside, data)
	arrived, release := make(chan string, 10), make(chan struct{})
	w.handle(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if asked := r.Header.Get("Range"); asked != "bytes=0-4194303" {
			arrived <- asked
			<-release
		}
		return next.RoundTrip(r)
	})
	r := testenv.Must(s.Open(t.Context(), name, 0, int64(len(data))))(t)
	got := []string{<-arrived, <-arrived, <-arrived}
	slices.SortFunc(got, func(a, b string) int { return len(a) - len(b) })
	if want := []string{"bytes=4194304-8388607", "bytes=8388608-12582911", "bytes=12582912-16777215"}; !slices.Equal(got, want) {
		t.Errorf("fetched ahead: %v, want %v", got, want)
	}
	close(release)
	all, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(all, data) {
		t.Errorf("%d bytes, %v", len(all), err)
	}
	wantErr(t, r.Close(), nil)
}

// TestReadAheadIsBounded checks that concurrent readers share the memory, that readers without
// memory work as well, and that Close releases the memory.
func TestReadAheadIsBounded(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{ReadAheadMemory: 9 * mib}) // enough for two prefetches
	data := content(1, 13*mib)
	name := mustPut(t, aside, data)
	ahead := func(n int) { // n readers remain open, which prefetch twice in total
		w.handle(nil)
		var open []io.ReadCloser
		for range n {
			r := testenv.Must(s.Open(t.Context(), name, 0, int64(len(data))))(t)
			open = append(open, r)
		}
		for _, r := range open {
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		}
		for _, r := range open {
			wantErr(t, r.Close(), nil)
			wantErr(t, r.Close(), nil)
		}
		testenv.Equal(t, len(w.requests()), 4*n, "requests of %d readers", n)
	}
	ahead(5)
	ahead(1)
	// All memory was released: a reader that is closed immediately leaves it to the next.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 5 {
		fetched := make(chan bool, 10)
		w.handle(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if r.Header.Get("Range") != "bytes=0-4194303" {
				fetched <- true
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return next.RoundTrip(r)
		})
		r := testenv.Must(s.Open(t.Context(), name, 0, int64(len(data))))(t)
		for range 2 {
			select {
			case <-fetched:
			case <-ctx.Done():
				t.Fatal("the memory of closed readers is not released: fewer than two requests are prefetched")
			}
		}
		wantErr(t, r.Close(), nil)
		if len(fetched) > 0 {
			t.Error("a third piece was fetched")
		}
	}
}

func TestReaderEndsWithItsContext(t *testing.T) {
	s, _, _ := onWire(t, s3.Options{})
	data := content(1, 13*mib)
	name := mustPut(t, s, data)
	for _, after := range []int64{0, 1, 4 * mib, 5 * mib} {
		ctx, cancel := context.WithCancel(t.Context())
		r := testenv.Must(s.Open(ctx, name, 0, int64(len(data))))(t)
		testenv.Must(io.CopyN(io.Discard, r, after))(t)
		cancel()
		n, err := r.Read(make([]byte, mib))
		wantErr(t, err, context.Canceled)
		if n > 0 {
			t.Errorf("%d bytes after the end of the context", n)
		}
		wantErr(t, r.Close(), nil)
	}
}
