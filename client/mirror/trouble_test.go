package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/client"
	"sluice/client/mirror"
	"sluice/test/testenv"
)

// TestGone: after changes that are no longer known, a comparison makes both sides equal. If the
// source was restored or set back, the mirror stops, since the target may have lost blobs.
// Invariants 230, 232.
func TestGone(t *testing.T) {
	t.Parallel()
	for position, max := range map[string]int{"1-zzzz": 10, "99-0": 100, "11-0": 10} {
		p := newPair(t)
		p.o.MaxDeletions = max
		p.from.put("team", "a", "x")
		p.to.put("team", "surplus", "x")
		p.state = mirror.State{Position: position, Compared: time.Now(), AsOf: time.Now()}
		if position == "11-0" {
			testenv.Is(t, p.run(), mirror.ErrBrake, "a source that was set back")
			testenv.Equal(t, p.saved().Position, position, "the saved position")
			continue
		}
		m, end := p.follow()
		p.eventually("there is no comparison", func() bool { return p.equal() && m.Figures().Lag == 0 })
		interrupted(t, end())
	}
}

// TestCompareAgain: what others change in the target is changed back by the next comparison.
func TestCompareAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.o.Compare = time.Millisecond
	p.from.put("team", "a", "x")
	_, end := p.follow()
	p.eventually("there is no comparison", p.equal)
	p.to.put("team", "a", "other")
	p.to.put("team", "surplus", "x")
	p.from.put("team", "b", "x") // a page that ends the wait
	p.eventually("the target is not changed back", p.equal)
	interrupted(t, end())
}

// TestFailedName: a name that fails is reported and kept in the state, holds up no other, and is
// tried again, also after a stop.
// Invariant 231.
func TestFailedName(t *testing.T) {
	t.Parallel()
	for _, refusal := range []struct {
		request, code string
		status        int
	}{{"DELETE /v1/blobs/team/a", "locked", 403}, {"PUT /v1/blobs/team/a", "quota_exceeded", 403}, {"PUT /v1/blobs/team/a", "storage_full", 507}, {"PUT /v1/blobs/team/a", "bad_parameter", 400}} {
		p := newPair(t)
		p.from.put("team", "a", "x")
		testenv.OK(t, p.once())
		if p.from.remove("team", "a"); refusal.request[0] == 'P' {
			p.from.put("team", "a", "y")
		}
		p.from.put("team", "b", "x")
		p.to.refuse(refusal.request, refusal.status, refusal.code)
		m, end := p.follow()
		p.eventually("another name is held up", func() bool { return slices.Contains(p.told(), "copied team/b") })
		p.eventually("the failure is not told", func() bool { return slices.Contains(p.told(), "failed team/a") && m.Figures().Failed == 1 })
		p.from.put("team", "c", "x")
		p.eventually("a later name is held up", func() bool { return slices.Contains(p.told(), "copied team/c") })
		interrupted(t, end())
		if reason := p.saved().Late["team/a"].Reason; !strings.Contains(reason, refusal.code) {
			t.Errorf("the state has the reason %q", reason)
		}
		testenv.Is(t, p.once(), mirror.ErrFailed, "a single comparison")
		p.to.setHook(nil)
		m, end = p.follow()
		p.eventually("the name is not tried again", func() bool { return p.equal() && m.Figures().Failed == 0 })
		interrupted(t, end())
		testenv.Equal(t, len(p.saved().Late), 0, "late names")
	}
}

// TestErrorOfAllNames ends a mirror whose key is refused, and one that cannot save its state, and
// does not wait for a source that has never responded.
func TestErrorOfAllNames(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		request, code string
		status        int
		want          error
	}{{"PUT ", "scope_missing", 403, client.ErrForbidden}, {"PUT ", "credential_unknown", 401, client.ErrUnauthorized}, {"GET /v1/changes", "scope_missing", 403, client.ErrForbidden}, {"GET /v1/changes", "overloaded", 503, client.ErrUnavailable}} {
		p := newPair(t)
		p.from.put("team", "a", "x")
		p.to.refuse(test.request, test.status, test.code)
		p.from.refuse(test.request, test.status, test.code)
		if test.request == "PUT " {
			p.from.setHook(nil)
		}
		testenv.Is(t, p.run(), test.want, "%s", test.code)
		testenv.Equal(t, p.saved().Position, "", "the position")
	}
	full := errors.New("the disk is full")
	p := newPair(t)
	m := testenv.Must(mirror.New(mirror.Options{From: p.o.From, To: p.o.To, Jobs: 1, Retry: time.Minute, Report: func(mirror.Event) {}, Save: func(mirror.State) error { return full }}))(t)
	p.from.put("team", "a", "x")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testenv.Is(t, m.Run(ctx), full, "a state that cannot be saved")
}

// TestAway waits while the target is away, and then continues.
func TestAway(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	m, end := p.follow()
	p.eventually("there is no comparison", func() bool { return p.saved().Position != "" || m.Figures().Lag == 0 })
	p.to.refuse("", 503, "overloaded")
	p.from.put("team", "a", "x")
	p.eventually("the outage is not told", func() bool { return slices.Contains(p.told(), "away") })
	if f := m.Figures(); f.Failed > 0 || f.Lag <= 0 {
		t.Errorf("the figures are %+v", f)
	}
	p.to.setHook(nil)
	p.eventually("the mirror does not continue", func() bool { return p.equal() && m.Figures().Lag == 0 })
	interrupted(t, end())
}

// TestBrake stops a comparison and a mirror that follows before they delete too much, and stays
// stopped until it is permitted.
// Invariant 232.
func TestBrake(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.o.MaxDeletions = 10
	for i := range 120 {
		p.to.put("team", fmt.Sprintf("%03d", i), "x")
		if i >= 13 {
			p.from.put("team", fmt.Sprintf("%03d", i), "x")
		}
	}
	p.from.put("team", "new", "x")
	testenv.Is(t, p.run(), mirror.ErrBrake, "a comparison with 13 deletions of 120")
	testenv.Equal(t, len(p.to.blobs("team", "")), 121, "blobs after the copies")
	p.o.From.Account = "empty"
	p.o.To.Prefix = "000"
	testenv.Is(t, p.once(), mirror.ErrBrake, "a comparison with an empty source")
	p.o.From.Account, p.o.To.Prefix = "team", ""
	p.to.remove("team", "000")
	testenv.OK(t, p.once()) // 12 of 120
	testenv.Equal(t, p.equal(), true, "equality")

	// Of 108 blobs 10 may go. Moved, expired and young ones do not count.
	p.from.put("team", "brief", "x", client.PutOptions{Expires: time.Now().Add(time.Hour)})
	p.from.put("team", "young", "x")
	_, end := p.follow()
	p.eventually("blobs are not copied", p.equal)
	p.from.remove("team", "young")
	for i := range 20 {
		name := client.BlobName{Account: "team", Name: fmt.Sprintf("%03d", 100+i)}
		testenv.OK(t, testenv.Error(p.from.Move(t.Context(), name, client.BlobName{Account: "team", Name: "moved" + name.Name}, client.MoveOptions{})))
	}
	for i := range 10 {
		p.from.remove("team", fmt.Sprintf("%03d", 20+i))
	}
	p.eventually("permitted deletions are not made", p.equal)
	interrupted(t, end())
	p.from.remove("team", "030")
	p.from.put("team", "later", "x")
	p.to.setHook(aged)
	for range 2 {
		testenv.Is(t, p.run(), mirror.ErrBrake, "an eleventh deletion")
		testenv.Equal(t, p.saved().Stopped, true, "the brake")
		p.state.Since = p.state.Since.Add(-2 * time.Hour) // time does not release it
	}
	if !slices.Contains(slices.Sorted(keys(p.to.blobs("team", ""))), "030") {
		t.Error("it was deleted")
	}
	p.o.MaxDeletions = 100
	testenv.OK(t, p.once())
	p.o.MaxDeletions = 10
	testenv.Equal(t, p.equal(), true, "equality after a permitted comparison")
	for i := range 9 {
		p.from.remove("team", fmt.Sprintf("%03d", 40+i))
	}
	_, end = p.follow()
	p.eventually("deletions are not made", p.equal)
	interrupted(t, end())
	p.state.Since = p.state.Since.Add(-2 * time.Hour)
	for i := range 8 {
		p.from.remove("team", fmt.Sprintf("%03d", 60+i))
	}
	_, end = p.follow()
	p.eventually("deletions of the next hour are not made", p.equal)
	interrupted(t, end())
}

var modified = regexp.MustCompile(`"lastModified":"[^"]*"`)

// aged is a hook for a service whose blobs in lists are old.
func aged(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if r.Method != http.MethodGet || r.URL.Path != "/v1/blobs/team" {
		next.ServeHTTP(w, r)
		return
	}
	list := httptest.NewRecorder()
	next.ServeHTTP(list, r)
	w.Header().Set("Content-Type", list.Header().Get("Content-Type"))
	w.WriteHeader(list.Code)
	_, _ = w.Write(modified.ReplaceAll(list.Body.Bytes(), []byte(`"lastModified":"2020-01-01T00:00:00Z"`)))
}

func keys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// TestLargeBlob copies a large blob beside other changes: it is replaced meanwhile, and the mirror
// is stopped during its copy.
// Invariant 231.
func TestLargeBlob(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	testenv.OK(t, p.once())
	held, released := make(chan struct{}, 100), make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	hold := func() {
		t.Helper()
		p.eventually("the large blob is not being copied", func() bool { return len(held) > 0 })
		<-held
	}
	p.to.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "large") {
			held <- struct{}{}
			select {
			case <-released:
			case <-r.Context().Done():
				return
			}
		}
		next.ServeHTTP(w, r)
	})
	large := strings.Repeat("large", 1<<20)
	p.from.put("team", "large", large)
	m, end := p.follow()
	hold()
	p.from.put("team", "small", "x")
	p.eventually("a small blob is held up", func() bool { return slices.Contains(p.told(), "copied team/small") })
	if f := m.Figures(); f.Failed != 0 || f.Lag <= 0 {
		t.Errorf("during the copy the figures are %+v", f)
	}
	interrupted(t, end())
	since := p.saved().Late["team/large"].Since
	if since.IsZero() {
		t.Error("the state lacks the large blob")
	}
	m, end = p.follow()
	hold()
	if least := time.Since(since).Seconds(); m.Figures().Lag < least {
		t.Errorf("the lag is %v, want %v or more", m.Figures().Lag, least)
	}
	p.from.put("team", "large", large+"2")
	p.from.put("team", "small2", "x")
	p.eventually("a small blob is held up", func() bool { return slices.Contains(p.told(), "copied team/small2") })
	testenv.Equal(t, len(held), 0, "further writes at the same time")
	release()
	p.from.put("team", "small3", "x")
	p.eventually("the large blob is not copied", func() bool {
		p.from.put("team", "tick", time.Now().String()) // a page is a chance to try again
		return len(m.Figures().Actions) > 0 && p.from.blobs("team", "large")[""] == p.to.blobs("team", "large")[""]
	})
	p.eventually("the end is not equal", p.equal)
	interrupted(t, end())
}

// TestAllAccounts mirrors every account of a service.
func TestAllAccounts(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.o.From.Account, p.o.To.Account = "", ""
	p.from.put("one", "a", "x")
	p.from.put("0x2", "b", "x")
	p.to.put("surplus", "a", "x")
	_, end := p.follow()
	equal := func() bool {
		for _, account := range []string{"one", "0x2", "surplus", "new"} {
			if fmt.Sprint(p.from.blobs(account, "")) != fmt.Sprint(p.to.blobs(account, "")) {
				return false
			}
		}
		return true
	}
	p.eventually("the accounts are not compared", equal)
	p.from.put("new", "c/d", "x")
	p.from.remove("0x2", "b")
	p.from.put("one", "a", "y")
	p.eventually("the accounts are not followed", equal)
	interrupted(t, end())
	testenv.Equal(t, len(p.to.blobs("new", "")), 1, "blobs of a new account")
}
