package s3_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/s3"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// passingFaults are faults that a retry overcomes.
var passingFaults = map[string]handler{
	"500":                respondsWith(500, "InternalError"),
	"502":                respondsWith(502, "BadGateway"),
	"503 SlowDown":       respondsWith(503, "SlowDown"),
	"429":                respondsWith(429, "TooManyRequests"),
	"connection refused": fault.Fail.Send,
	"response lost":      fault.Lose.Send,
}

func TestTransientFailuresAreRetried(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{})
	for name, f := range passingFaults {
		t.Run(name, func(t *testing.T) {
			data := content(1, 100_000)
			object := newName()
			before := s.Requests(s3.OpPut)
			failed, sent := before.Errors, before.Seconds.Counts().Count
			w.handle(times(2, http.MethodPut, f))
			wantErr(t, put(t, s, object, data), nil)
			wantObject(t, aside, object, data)
			after := s.Requests(s3.OpPut)
			// After a lost response the object is there, which ends the attempts.
			if n := after.Errors - failed; n < 1 || n > 2 || after.Seconds.Counts().Count < sent+uint64(n) {
				t.Errorf("%d failed requests are counted, of %d", n, after.Seconds.Counts().Count-sent)
			}

			w.handle(times(2, http.MethodGet, f))
			wantObject(t, s, object, data)
			w.handle(times(2, http.MethodHead, f))
			wantErr(t, testenv.Error(read(t.Context(), s, object, 0, 0)), nil)

			w.handle(times(2, http.MethodGet, f))
			if objects := list(t, s); !slices.Equal(objects, []bytestore.Name{object}) {
				t.Errorf("listed %v", objects)
			}
			w.handle(times(2, http.MethodDelete, f))
			wantErr(t, s.Delete(t.Context(), object), nil)
			wantAbsent(t, aside, object)
		})
	}
}

// TestLastingFailuresAreClean checks that a Put returns an error if all its requests fail, and that
// nothing is visible, then or after the server has recovered.
func TestLastingFailuresAreClean(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{})
	for _, tc := range []struct {
		name  string
		fault handler
		want  error
	}{
		{"500", respondsWith(500, "InternalError"), bytestore.ErrOverloaded},
		{"503", respondsWith(503, "SlowDown"), bytestore.ErrOverloaded},
		{"507", respondsWith(507, "InsufficientStorage"), bytestore.ErrNoSpace},
		{"quota", respondsWith(403, "QuotaExceeded"), bytestore.ErrNoSpace},
		{"refused", fault.Fail.Send, bytestore.ErrOverloaded},
		{"damaged", damage, nil},
		{"denied", respondsWith(403, "AccessDenied"), nil},
		{"conflict", respondsWith(409, "ConditionalRequestConflict"), bytestore.ErrOverloaded},
	} {
		t.Run(tc.name, func(t *testing.T) {
			object := newName()
			w.handle(times(always, http.MethodPut, tc.fault))
			err := put(t, s, object, content(1, 1000))
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if n := len(w.requests()); n > 30 {
				t.Errorf("%d requests", n)
			}
			wantAbsent(t, aside, object)
			w.handle(nil)
			wantErr(t, put(t, s, object, content(1, 1000)), nil)
			wantObject(t, aside, object, content(1, 1000))
		})
	}
}

func TestDamagedTransferIsRetried(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{})
	for _, size := range []int{1, 100_000, 3 << 20} {
		w.handle(times(2, http.MethodPut, damage))
		wantObject(t, aside, mustPut(t, s, content(1, size)), content(1, size))
		testenv.Equal(t, len(w.requests()), 3, "requests for %d bytes", size)
	}
}

// TestConflictIsRetried checks that a Put is retried after status 409, which AWS returns to one of
// two concurrent requests.
// Invariant 85.
func TestConflictIsRetried(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{})
	conflict := respondsWith(409, "ConditionalRequestConflict")

	w.handle(times(2, http.MethodPut, conflict))
	wantObject(t, aside, mustPut(t, s, content(1, 1000)), content(1, 1000))

	taken := mustPut(t, aside, content(2, 1000))
	w.handle(times(always, http.MethodPut, conflict))
	wantErr(t, put(t, s, taken, content(1, 1000)), bytestore.ErrExists)
	wantObject(t, aside, taken, content(2, 1000))
}

// TestLostResponsesOfAPut stores the object and loses all responses to PUT requests. The Put must
// find out that it succeeded, and distinguish its object from another Put's.
// Invariant 85.
func TestLostResponsesOfAPut(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{})
	w.handle(times(always, http.MethodPut, fault.Lose.Send))
	wantObject(t, aside, mustPut(t, s, content(1, 1000)), content(1, 1000))

	taken := mustPut(t, aside, content(2, 1000))
	wantErr(t, put(t, s, taken, content(2, 1000)), bytestore.ErrExists)
	wantObject(t, aside, taken, content(2, 1000))
}

// TestUnknownOutcome checks that a Put fails if the server no longer responds, and that the server
// has either nothing or the complete object.
func TestUnknownOutcome(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{})
	name, data := newName(), content(1, 1000)
	w.handle(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if r.Method == http.MethodPut {
			return fault.Lose.Send(r, next)
		}
		return fault.Fail.Send(r, next)
	})
	err := put(t, s, name, data)
	wantErr(t, err, bytestore.ErrOverloaded)
	if !strings.Contains(err.Error(), "unknown") {
		t.Errorf("the error does not call the outcome unknown: %v", err)
	}
	wantObject(t, aside, name, data)
}

// TestPutInDoubtIsNotTaken loses the response to the first PUT, returns 412 to the second because
// the first one's object is there, and loses the response to the request for its metadata. The
// error must not report that the name is in use.
// Invariant 85.
func TestPutInDoubtIsNotTaken(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{})
	name, data := newName(), content(1, 1000)
	w.handle(times(1, http.MethodPut, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		w.handle(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if r.Method == http.MethodPut {
				return next.RoundTrip(r)
			}
			return fault.Fail.Send(r, next)
		})
		return fault.Lose.Send(r, next)
	}))
	err := put(t, s, name, data)
	wantErr(t, err, bytestore.ErrOverloaded)
	if errors.Is(err, bytestore.ErrExists) {
		t.Errorf("the name is taken: %v", err)
	}
	wantObject(t, aside, name, data)
}

// TestCancelledPutDeletesItsObject ends the context after the server has stored the object and
// before it has responded.
func TestCancelledPutDeletesItsObject(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	stored := false
	w.handle(times(1, http.MethodPut, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		resp, err := fault.Lose.Send(r, next)
		stored = len(list(t, aside)) == 1
		cancel()
		return resp, err
	}))
	name, data := newName(), content(1, 1000)
	wantErr(t, s.Put(ctx, name, bytes.NewReader(data), 1000), context.Canceled)
	if !stored {
		t.Error("the object was not stored when the context ended")
	}
	wantAbsent(t, aside, name)
	wantErr(t, s.Err(), nil)
}

// TestLateReaderOfABody uses a transport that continues to read a body after it has returned. It
// must not get any bytes.
func TestLateReaderOfABody(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{})
	for _, f := range []handler{fault.Fail.Send, respondsWith(503, "SlowDown")} {
		var late io.Reader
		w.handle(times(1, http.MethodPut, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			late = r.Body
			return f(r, next)
		}))
		wantObject(t, aside, mustPut(t, s, content(1, 1000)), content(1, 1000))
		if n, err := late.Read(make([]byte, 1000)); n > 0 || err == nil || err == io.EOF {
			t.Errorf("read %d bytes late, %v", n, err)
		}
	}
}

func list(t *testing.T, s *s3.Store) (names []bytestore.Name) {
	t.Helper()
	err := s.List(t.Context(), "", func(o bytestore.Object) error {
		names = append(names, o.Name)
		return nil
	})
	testenv.OK(t, err)
	return names
}

// wantAbsent fails the test unless no object is visible under name.
func wantAbsent(t *testing.T, s *s3.Store, name bytestore.Name) {
	t.Helper()
	wantErr(t, testenv.Error(read(t.Context(), s, name, 0, 0)), bytestore.ErrNotFound)
	if slices.Contains(list(t, s), name) {
		t.Errorf("%s is listed", name)
	}
}
