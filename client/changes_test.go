package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/client"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestChanges follows the changes of an account over requests that are cut and refused, and a
// service that is away for a while: each change comes once, in order.
// Invariant 227.
func TestChanges(t *testing.T) {
	t.Parallel()
	s := newService(t, serviceOptions{})
	var requests, outages atomic.Int64
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/v1/changes" {
			switch requests.Add(1) % 9 {
			case 3, 4:
				return fail(errDial)(r)
			case 5:
				return respond(502, nil, "")(r)
			case 6:
				res, err := s.RoundTrip(r)
				if err == nil {
					err = res.Body.Close()
				}
				return nil, errors.Join(errors.New("the reply is lost"), err)
			}
		}
		return s.RoundTrip(r)
	})
	c := testenv.Must(client.New("http://localhost", client.Options{Transport: transport, MaxAttempts: 1, OnOutage: func(error) { outages.Add(1) }, OnSlow: func(what string) { t.Errorf("slow: %s", what) }}))(t)
	const total = 30
	begun := make(chan string, 1)
	go func() {
		<-begun
		for i := range total {
			testenv.Check(t, testenv.Error(c.Put(t.Context(), "team", fmt.Sprint("a/", i), strings.NewReader("x"), client.PutOptions{})))
			testenv.Check(t, testenv.Error(c.Put(t.Context(), "team", fmt.Sprint("b/", i), strings.NewReader("x"), client.PutOptions{})))
		}
	}()
	passed, seen := "", 0
	for change, err := range c.Changes(t.Context(), client.ChangesOptions{Account: "team", Prefix: "a/", Kinds: []string{"stored"}, Passed: func(position string) {
		if passed == "" {
			begun <- position
		}
		passed = position
	}}) {
		testenv.OK(t, err)
		testenv.Equal(t, change.Name, fmt.Sprint("a/", seen), "the change")
		if seen++; seen == total {
			break
		}
	}
	if requests.Load() > 4 && outages.Load() == 0 {
		t.Error("no outage was announced")
	}
}

// TestChangesThatAreGone: the error has the position at which to continue, and a request that
// cannot succeed is an error at once.
func TestChangesThatAreGone(t *testing.T) {
	t.Parallel()
	_, c := startServer(t)
	first := func(o client.ChangesOptions) error {
		for _, err := range c.Changes(t.Context(), o) {
			return err
		}
		return nil
	}
	_ = testenv.Must(c.Put(t.Context(), "team", "a", strings.NewReader("x"), client.PutOptions{}))(t)
	testenv.OK(t, first(client.ChangesOptions{Account: "team", After: "start"}))
	err := first(client.ChangesOptions{Account: "team", After: "99-0"})
	var gone *client.Error
	if !errors.As(err, &gone) || gone.Code != wire.CodeChangesGone || !errors.Is(err, client.ErrGone) {
		t.Fatalf("the error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range c.Changes(ctx, client.ChangesOptions{Account: "team", After: gone.Restart, Passed: func(string) { cancel() }}) {
		testenv.Is(t, err, context.Canceled, "the changes after the restart")
	}
	testenv.Is(t, first(client.ChangesOptions{Kinds: []string{"none"}}), client.ErrInvalid, "an unknown kind")
}

// TestHostileChanges: a page that no service sends is an error, and one that comes at once without
// a change is not requested again at once.
func TestHostileChanges(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{}`, `{"changes":[],"next":"a b"}`, `{"changes":[{"position":"1","kind":"stored","account":"a","name":"other","size":1}],"next":"1"}`,
		`{"changes":[{"position":"1","kind":"stored","account":"a","name":"p","size":-1}],"next":"1"}`,
		`{"changes":[{"position":"","kind":"stored","account":"a","name":"p","size":1}],"next":"1"}`,
	} {
		_, c := newScript(t, 1, respond(200, nil, body))
		for _, err := range c.Changes(t.Context(), client.ChangesOptions{Prefix: "p"}) {
			testenv.Is(t, err, client.ErrBadResponse, "%s", body)
		}
	}
	runInBubble(t, "without a wait", func(t *testing.T) {
		requests := 0
		c := newClient(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			requests++
			return respond(200, nil, `{"changes":[],"next":"1"}`)(r)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, err := range c.Changes(ctx, client.ChangesOptions{}) {
			testenv.Is(t, err, context.DeadlineExceeded, "the end")
		}
		if requests > 40 {
			t.Errorf("%d requests in a minute", requests)
		}
	})
}
