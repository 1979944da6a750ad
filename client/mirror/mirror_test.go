package mirror_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/client"
	"sluice/client/mirror"
	"sluice/test/testenv"
)

// TestMirror compares, follows, and continues after a stop with the state, for each kind of change.
// Invariants 230, 231.
func TestMirror(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.o.From.Prefix, p.o.To.Prefix = "a/", "copy/"
	expires := time.Now().Add(time.Hour)
	full := client.PutOptions{ContentType: "text/x", Expires: expires, CacheControl: "max-age=3", ContentDisposition: "inline", ContentLanguage: "de", Metadata: map[string]string{"k": "v"}}
	p.from.put("team", "a/full", "text", full)
	p.from.put("team", "a/empty", "")
	p.from.put("team", "a/ %2F/../ä\"<&?#", "odd")
	p.from.put("team", "b/other", "not mirrored")
	p.to.put("team", "copy/surplus", "deleted")
	p.to.put("team", "copy/full", "another text")
	p.to.put("team", "kept", "not a copy")
	m, end := p.follow()
	p.eventually("the comparison is not complete", func() bool { return p.equal() && m.Figures().Lag == 0 })
	testenv.Equal(t, len(p.to.blobs("team", "")), 4, "blobs in the target")
	testenv.Equal(t, p.saved().Position != "", true, "a state")

	changes := func() {
		full.Metadata = map[string]string{"k": p.saved().Position}
		p.from.put("team", "a/full", "text", full)
		p.from.put("team", "a/new", "new")
		p.from.put("team", "a/moved", "moved")
		testenv.OK(t, testenv.Error(p.from.Move(t.Context(), client.BlobName{Account: "team", Name: "a/moved"}, client.BlobName{Account: "team", Name: "a/there"}, client.MoveOptions{})))
		testenv.OK(t, testenv.Error(p.from.Copy(t.Context(), client.BlobName{Account: "team", Name: "b/other"}, client.BlobName{Account: "team", Name: "a/copied"}, client.CopyOptions{})))
		p.from.put("team", "a/gone", "gone")
		p.from.remove("team", "a/gone")
	}
	changes()
	p.eventually("changes are not mirrored", func() bool { return p.equal() && m.Figures().Lag == 0 })
	interrupted(t, end())
	p.to.setHook(nil)
	changes()
	p.from.remove("team", "a/new")
	m, end = p.follow()
	p.eventually("the changes after the stop are not mirrored", func() bool { return p.equal() && m.Figures().Lag == 0 })
	interrupted(t, end())
	testenv.Equal(t, p.to.requests("GET /v1/blobs/team/"), 0, "reads of blobs in the target")
	if n := strings.Count(strings.Join(p.told(), "\n"), "comparing"); n != 1 {
		t.Errorf("%d comparisons", n)
	}
}

// TestOnce compares once: it copies only what differs, and properties without their content.
func TestOnce(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.from.put("team", "same", "same")
	p.to.put("team", "same", "same")
	p.from.put("team", "type", "same", client.PutOptions{ContentType: "text/a", Metadata: map[string]string{"a": "1"}})
	p.to.put("team", "type", "same", client.PutOptions{ContentType: "text/b", Expires: time.Now().Add(time.Hour)})
	p.to.setHook(nil)
	testenv.OK(t, p.once())
	testenv.Equal(t, p.equal(), true, "equality")
	testenv.Equal(t, p.to.requests("PUT"), 0, "contents that were sent")
	testenv.Equal(t, strings.Join(p.told(), ", "), "comparing, updated team/type, compared", "the events")

	// A key that may not copy within the target sends the content.
	p.from.put("team", "type", "same")
	p.to.refuse("POST /v1/blobs/team/type", 403, "name_forbidden")
	testenv.OK(t, p.once())
	testenv.Equal(t, p.equal(), true, "equality without copies")
}

// TestSides refuses mirrors into themselves.
func TestSides(t *testing.T) {
	t.Parallel()
	a := testenv.Must(client.New("http://a", client.Options{}))(t)
	same := testenv.Must(client.New("http://A/", client.Options{}))(t)
	b := testenv.Must(client.New("http://b", client.Options{}))(t)
	for _, test := range []struct {
		from, to mirror.Side
		want     error
	}{
		{mirror.Side{Client: a}, mirror.Side{Client: same}, client.ErrInvalid},
		{mirror.Side{Client: a}, mirror.Side{Client: b}, nil},
		{mirror.Side{Client: a}, mirror.Side{Client: b, Account: "x"}, client.ErrInvalid},
		{mirror.Side{Client: a, Account: "x"}, mirror.Side{Client: b}, client.ErrInvalid},
		{mirror.Side{Client: a, Account: "x"}, mirror.Side{Client: same, Account: "x"}, client.ErrInvalid},
		{mirror.Side{Client: a, Account: "x"}, mirror.Side{Client: same, Account: "x", Prefix: "a/"}, client.ErrInvalid},
		{mirror.Side{Client: a, Account: "x", Prefix: "a/b/"}, mirror.Side{Client: same, Account: "x", Prefix: "a/"}, client.ErrInvalid},
		{mirror.Side{Client: a, Account: "x", Prefix: "a/"}, mirror.Side{Client: same, Account: "x", Prefix: "b/"}, nil},
		{mirror.Side{Client: a, Account: "x"}, mirror.Side{Client: same, Account: "y"}, nil},
	} {
		testenv.Is(t, testenv.Error(mirror.New(mirror.Options{From: test.from, To: test.to})), test.want, "%+v to %+v", test.from, test.to)
	}
}

// TestChangeDuringTheListing: a blob that is stored, replaced or deleted behind the listing's back
// is mirrored, since the position was taken before.
// Invariant 230.
func TestChangeDuringTheListing(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.from.put("team", "deleted", "x")
	p.from.put("team", "replaced", "x")
	changed, first := false, true
	p.from.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		p.from.mu.Lock()
		begins := first && r.URL.Path == "/v1/changes"
		first = first && !begins
		p.from.mu.Unlock()
		if begins { // the first page has a change that has just been made
			p.from.put("team", "early", "x")
			r.URL.RawQuery += "&after=start"
		}
		next.ServeHTTP(w, r)
		if p.from.mu.Lock(); changed || r.URL.Path != "/v1/blobs/team" {
			p.from.mu.Unlock()
			return
		}
		changed = true
		p.from.mu.Unlock()
		p.from.put("team", "a", "stored after the listing")
		p.from.put("team", "replaced", "y")
		p.from.remove("team", "deleted")
	})
	m, end := p.follow()
	p.eventually("a change during the listing is lost", func() bool { return m.Figures().Lag == 0 && p.equal() })
	interrupted(t, end())
	testenv.Equal(t, changed, true, "changes during the listing")
	testenv.Equal(t, len(p.to.blobs("team", "")), 3, "blobs")
}

// TestLateWrite delivers a write of an earlier process after a newer one: it has no effect.
// Invariant 231.
func TestLateWrite(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "zero"} {
		p := newPair(t)
		if before != "" {
			p.from.put("team", "a", before)
		}
		testenv.OK(t, p.once())
		p.from.put("team", "a", "one")
		held, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
		first := true
		p.to.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			p.to.mu.Lock()
			late := first && r.Method == http.MethodPut
			first = first && !late
			p.to.mu.Unlock()
			if late {
				close(held)
				<-release
				defer close(done)
				r = r.WithContext(t.Context()) // the connection's end does not end the request
			}
			next.ServeHTTP(w, r)
		})
		_, end := p.follow()
		<-held
		interrupted(t, end())
		p.from.put("team", "a", "two")
		m, end := p.follow()
		p.eventually("the newer content is not mirrored", func() bool { return p.equal() && m.Figures().Lag == 0 })
		close(release)
		<-done
		testenv.Equal(t, p.equal(), true, "equality after the late write")
		interrupted(t, end())
	}
}

// TestPositionFollowsTheBlobs: no saved state has a position behind a change that is not applied.
// Invariant 231.
func TestPositionFollowsTheBlobs(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	testenv.OK(t, p.once())
	before := p.saved()
	held, release := make(chan struct{}), make(chan struct{})
	p.to.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPut && r.URL.Path == "/v1/blobs/team/slow" {
			close(held)
			<-release
		}
		next.ServeHTTP(w, r)
	})
	m, end := p.follow()
	p.eventually("there is a lag", func() bool { return m.Figures().Lag == 0 })
	p.from.put("team", "slow", "slow")
	p.from.put("team", "fast", "fast")
	<-held
	p.eventually("other names wait", func() bool { return slices.Contains(p.told(), "copied team/fast") })
	testenv.Equal(t, p.saved().Position, before.Position, "the position before the change is applied")
	if lag := m.Figures().Lag; lag <= 0 {
		t.Errorf("the lag is %v", lag)
	}
	close(release)
	p.eventually("the change is not applied", func() bool { return p.equal() && m.Figures().Lag == 0 })
	interrupted(t, end())
	if p.saved().Position == before.Position {
		t.Error("the position has not moved")
	}
}
