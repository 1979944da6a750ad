package s3_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/s3"
	"sluice/test/testenv"
)

func mustPutMany(t *testing.T, s *s3.Store, n int) []bytestore.Name {
	t.Helper()
	names := make([]bytestore.Name, n)
	for i := range names {
		names[i] = mustPut(t, s, content(1, 10))
	}
	return names
}

// TestManyDeletesAreOneRequest: a thousand objects go by one request, over failures that pass.
func TestManyDeletesAreOneRequest(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{})
	objects := mustPutMany(t, aside, 20)
	for len(objects) < 1000 {
		objects = append(objects, newName()) // which was never there
	}
	w.handle(nil)
	wantErr(t, s.Delete(t.Context(), objects...), nil)
	if got := w.requests(); !slices.Equal(got, []string{"POST"}) {
		t.Errorf("requests: %v", got)
	}
	if left := list(t, aside); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for name, f := range passingFaults {
		objects := mustPutMany(t, aside, 2)
		w.handle(times(2, http.MethodPost, f))
		testenv.Is(t, s.Delete(t.Context(), objects...), nil, "%s", name)
		if left := list(t, aside); len(left) > 0 {
			t.Errorf("%s: left: %v", name, left)
		}
	}
}

// TestServerWithoutManyDeletes: where the server does not know the request for many objects they
// are deleted one by one, and the request is not repeated.
func TestServerWithoutManyDeletes(t *testing.T) {
	for _, unknown := range []handler{respondsWith(501, "NotImplemented"), respondsWith(405, "MethodNotAllowed")} {
		s, aside, w := onWire(t, s3.Options{})
		for _, want := range [][]string{{"POST", "DELETE", "DELETE"}, {"DELETE", "DELETE"}} {
			names := mustPutMany(t, aside, 2)
			w.handle(times(always, http.MethodPost, unknown))
			wantErr(t, s.Delete(t.Context(), names...), nil)
			if got := w.requests(); !slices.Equal(got, want) {
				t.Errorf("requests: %v, want %v", got, want)
			}
			if left := list(t, aside); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		}
	}
}

// TestDeleteWithoutTheBucket: that the bucket is missing does not mean that the object is gone, as
// it does that the object is missing.
func TestDeleteWithoutTheBucket(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{})
	name := mustPut(t, aside, content(1, 10))
	w.handle(times(always, http.MethodDelete, respondsWith(404, "NoSuchBucket")))
	if err := s.Delete(t.Context(), name); err == nil || !strings.Contains(err.Error(), "as the test wants") {
		t.Errorf("the bucket is missing: %v", err)
	}
	w.handle(times(always, http.MethodDelete, respondsWith(404, "NoSuchKey")))
	wantErr(t, s.Delete(t.Context(), name), nil)
}

// TestResponsesToManyDeletes checks that only objects that the response reports as deleted count as
// deleted, and that each other object has its own error.
func TestResponsesToManyDeletes(t *testing.T) {
	s, _, w := onWire(t, s3.Options{})
	objects := make([]bytestore.Name, 6)
	for i := range objects {
		objects[i] = newName()
	}
	respond := func(body func(prefix string) string) handler {
		return func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
			text, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			before, _, _ := strings.Cut(string(text), string(objects[0]))
			prefix := before[strings.LastIndex(before, ">")+1:]
			return &http.Response{
				Status: "200 OK", StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"application/xml"}},
				Body: io.NopCloser(strings.NewReader(body(prefix))),
			}, nil
		}
	}
	failed := func(name, code string) string {
		return fmt.Sprintf("<Error><Key>%s</Key><Code>%s</Code><Message>as the test wants</Message></Error>", name, code)
	}
	w.handle(times(always, http.MethodPost, respond(func(prefix string) string {
		name := func(i int) string { return prefix + string(objects[i]) }
		return "<DeleteResult><Deleted><Key>" + name(0) + "</Key></Deleted>" + failed(name(1), "AccessDenied") + failed(name(2), "SlowDown") +
			failed(name(3), "NoSuchKey") + failed(name(4), "InvalidArgument") + "</DeleteResult>"
	})))
	err := s.Delete(t.Context(), objects...)
	left, ok := errors.AsType[bytestore.Undeleted](err)
	if !ok || len(left) != 4 {
		t.Fatalf("%v, want an Undeleted of four", err)
	}
	for i, passes := range map[int]bool{1: false, 2: true, 4: true, 5: true} {
		if err := left[objects[i]]; err == nil || errors.Is(err, bytestore.ErrOverloaded) != passes {
			t.Errorf("object %d: %v, want one that may pass: %v", i, err, passes)
		}
	}
	if !strings.Contains(left[objects[1]].Error(), "as the test wants") {
		t.Errorf("the server's words are lost: %v", left[objects[1]])
	}
	for name, f := range map[string]handler{"no XML": respond(func(string) string { return "<Dele" }), "denied": respondsWith(403, "AccessDenied")} {
		w.handle(times(always, http.MethodPost, f))
		if got := bytestore.UndeletedOf(nil, s.Delete(t.Context(), objects...)); len(got) != len(objects) {
			t.Errorf("%s: %d objects are left, want all: %v", name, len(got), got)
		}
	}
}
