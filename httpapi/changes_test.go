package httpapi

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/access/places"
	"sluice/blob"
	"sluice/feed"
	"sluice/metastore"
	"sluice/test/testenv"
	"sluice/wire"
	"sluice/wire/link"
)

// changes returns a page of changes.
func (s *service) changes(t testing.TB, query string, headers ...string) wire.ChangePage {
	t.Helper()
	_, body := s.want(t, 200, "GET", "/v1/changes?"+query, "", headers...)
	return decodedAs[wire.ChangePage](t, body)
}

// kindsOf returns changes as KIND:NAME.
func kindsOf(list []wire.Change) string {
	var all []string
	for _, c := range list {
		all = append(all, c.Kind+":"+c.Name)
	}
	return strings.Join(all, " ")
}

// TestChanges lists changes of accounts, by prefix, kind and position. Each account has its own end
// of a move.
// Invariant 228.
func TestChanges(t *testing.T) {
	s := newService(t, nil)
	now := s.changes(t, "account=a").Next
	s.want(t, 204, "PUT", "/v1/blobs/a/x", "1", "Blob-Expires", "2100-01-02T03:04:05Z")
	s.want(t, 204, "PUT", "/v1/blobs/a/x", "22")
	s.want(t, 200, "POST", "/v1/blobs/a/x", `{"moveTo": {"account": "b", "blobName": "p/y"}}`)
	s.want(t, 204, "DELETE", "/v1/blobs/b/p/y", "")
	for query, want := range map[string]string{
		"account=a&after=start":            "stored:x replaced:x moved-from:x",
		"account=a&after=" + now:           "stored:x replaced:x moved-from:x",
		"account=b&after=start":            "moved-to:p/y deleted:p/y",
		"account=b&after=start&prefix=q":   "",
		"prefix=p&after=start":             "moved-to:p/y deleted:p/y",
		"account=a&":                       "",
		"account=c&after=start":            "",
		"kinds=deleted,stored&after=start": "stored:x deleted:p/y",
		"account=a&after=start&limit=2":    "stored:x replaced:x",
	} {
		testenv.Equal(t, kindsOf(s.changes(t, query).Changes), want, "the changes of %s", query)
	}
	all := s.changes(t, "after=start")
	testenv.Equal(t, len(all.Changes), 5, "changes of all accounts")
	first := all.Changes[0]
	if first.ETag == "" || first.Size != 1 || first.ContentType != "application/octet-stream" || first.Version == "" || first.Expires.Year() != 2100 || first.Account != "0xa" {
		t.Errorf("the first change is %+v", first)
	}
	var paged []wire.Change
	for next := now; len(paged) < 5; {
		page := s.changes(t, "limit=1&after="+next)
		paged, next = append(paged, page.Changes...), page.Next
		testenv.Equal(t, next, paged[len(paged)-1].Position, "next behind a page that is full")
	}
	testenv.Equal(t, kindsOf(paged), kindsOf(all.Changes), "the changes in pages of one")

	for _, query := range []string{"kinds=none", "kinds=,", "wait=61", "wait=x", "after=x", "after=1", "delimiter=/", "limit=0", "include=metadata"} {
		s.refused(t, 400, wire.CodeBadParameter, "GET", "/v1/changes?"+query, "")
	}
	s.refused(t, 400, wire.CodeBadAccount, "GET", "/v1/changes?account=", "")
	events := []string{"Accept", "text/event-stream"}
	s.refused(t, 400, wire.CodeBadParameter, "GET", "/v1/changes?wait=1", "", events...)
	s.refused(t, 400, wire.CodeBadHeader, "GET", "/v1/changes?after=start", "", append(events, "Last-Event-ID", "x")...)
	generation, _, _ := strings.Cut(now, "-")
	for _, headers := range [][]string{nil, events} {
		_, body := s.refused(t, 410, wire.CodeChangesGone, "GET", "/v1/changes?after="+generation+"-zzzzz", "", headers...)
		testenv.Equal(t, decodedAs[wire.Problem](t, body).Restart, all.Next, "the restart")
	}
}

// TestWaitForChanges: a page that waits comes with the next change.
func TestWaitForChanges(t *testing.T) {
	s := newService(t, nil)
	now := s.changes(t, "").Next
	got := make(chan wire.ChangePage)
	for _, query := range []string{"wait=60", "wait=60&after=" + now, "account=a&kinds=stored&wait=60&after=" + now} {
		go func() { got <- s.changes(t, query) }()
	}
	s.waiting(t, 3)
	s.want(t, 204, "PUT", "/v1/blobs/b/x", "1")
	for range 2 {
		testenv.Equal(t, kindsOf((<-got).Changes), "stored:x", "the change")
	}
	s.want(t, 204, "PUT", "/v1/blobs/a/y", "1")
	testenv.Equal(t, kindsOf((<-got).Changes), "stored:y", "the change of the account")
	page := s.changes(t, "wait=1")
	testenv.Equal(t, len(page.Changes), 0, "changes after a wait for nothing")
	s.want(t, 200, "HEAD", "/v1/changes?wait=60", "")
}

// waiting waits until so many requests wait for changes, and hold no slot.
func (s *service) waiting(t testing.TB, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); s.feed.Stats().Readers != n || s.Busy(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d requests wait, want %d", s.feed.Stats().Readers, n)
		}
	}
}

// stream is a stream of events.
type stream struct {
	ctx   context.Context
	body  io.ReadCloser
	lines *bufio.Scanner
}

// open opens a stream. It must have the status 200.
func (s *service) open(t *testing.T, client *http.Client, query string, headers ...string) *stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	req := testenv.Must(http.NewRequestWithContext(ctx, "GET", s.url+"/v1/changes?"+query, nil))(t)
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res := testenv.Must(client.Do(req))(t)
	t.Cleanup(func() { _ = res.Body.Close() }) // it may have failed
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("the stream is %d %v", res.StatusCode, res.Header)
	}
	return &stream{ctx, res.Body, bufio.NewScanner(res.Body)}
}

// next returns the next event's lines, without their ends.
func (e *stream) next(t *testing.T) (lines []string) {
	t.Helper()
	for e.lines.Scan() {
		if e.lines.Text() == "" {
			return lines
		}
		lines = append(lines, e.lines.Text())
	}
	t.Fatalf("the stream has ended after %q: %v", lines, e.lines.Err())
	return nil
}

// change returns the next event's change.
func (e *stream) change(t *testing.T) wire.Change {
	t.Helper()
	lines := e.next(t)
	if len(lines) != 3 {
		t.Fatalf("the event has %q", lines)
	}
	c := decodedAs[wire.Change](t, strings.TrimPrefix(lines[2], "data: "))
	if lines[0] != "id: "+c.Position || lines[1] != "event: "+c.Kind {
		t.Errorf("the event has %q", lines)
	}
	return c
}

// end reads the stream to its end, and returns whether that was complete.
func (e *stream) end(t *testing.T) error {
	t.Helper()
	for e.lines.Scan() {
	}
	testenv.Check(t, e.ctx.Err()) // otherwise it has not ended
	return e.lines.Err()
}

// TestStreamOfChanges reads a stream over HTTP/1 and HTTP/2, reconnects where it ended, and sees it
// end cleanly when the service shuts down.
// Invariant 227.
func TestStreamOfChanges(t *testing.T) {
	for _, version := range []int{1, 2} {
		s := newService(t, nil)
		client := http.DefaultClient
		if version == 2 {
			server := httptest.NewUnstartedServer(nil)
			server.Config, server.EnableHTTP2 = s.ServerOf(s.Server), true
			server.StartTLS()
			t.Cleanup(server.Close)
			client, s.url = server.Client(), server.URL
		}
		put := func(account, name string) {
			res := s.direct(t.Context(), "127.0.0.1:1", "PUT", "/v1/blobs/"+account+"/"+name, "x")
			testenv.Equal(t, res.StatusCode, 204, "the status of a PUT")
		}
		put("a", "before")
		e := s.open(t, client, "account=a&kinds=stored")
		hello := e.next(t)
		if len(hello) != 2 || hello[0] != "retry: 2000" || !strings.HasPrefix(hello[1], "id: ") {
			t.Fatalf("the stream begins with %q", hello)
		}
		put("a", "one")
		put("b", "other")
		put("a", "two")
		first := e.change(t)
		testenv.Equal(t, first.Name, "one", "the first change")
		testenv.Equal(t, e.change(t).Name, "two", "the second change")
		testenv.OK(t, e.body.Close())

		again := s.open(t, client, "account=a&after=start", "Last-Event-ID", first.Position)
		again.next(t)
		testenv.Equal(t, again.change(t).Name, "two", "the change behind the last event")
		s.feed.Close()
		testenv.OK(t, again.end(t))
		client.CloseIdleConnections()
		testenv.Equal(t, s.direct(t.Context(), "127.0.0.1:1", "GET", "/v1/changes?wait=60", "").StatusCode, 503, "a wait after the end")
	}
}

// TestAcceptsEvents: a stream must be asked for by name, and no less than a page.
func TestAcceptsEvents(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "text/*": false, "application/json": false, "x; text/event-stream": false,
		"text/event-stream": true, "Text/Event-Stream; charset=utf-8": true, "text/event-stream, */*": true, "text/event-stream;q=0.5": true,
		"application/json, text/event-stream": true, "application/json;q=0.5, text/event-stream": true,
		"text/event-stream;q=0": false, "text/event-stream; q=0.000, */*": false, "text/event-stream;q=0.1, application/json": false, "text/event-stream;q=x": false,
	} {
		testenv.Equal(t, acceptsEvents(http.Header{"Accept": {accept}}), want, "whether %q asks for a stream", accept)
	}
	testenv.Equal(t, acceptsEvents(http.Header{"Accept": {"application/json;q=0.1", "text/event-stream;q=0.2"}}), true, "whether two lines ask for a stream")
}

// TestStreamsEndWithTheirRights: a stream ends when its key is revoked or may list no more, its
// place is closed, or its link expires.
// Invariant 228.
func TestStreamsEndWithTheirRights(t *testing.T) {
	l := newLinking(t, access.ReadsKey)
	l.set(t, ours, "", false, places.Settings{MayOpen: true})
	l.set(t, ours, "public/", false, places.Settings{Lists: "public"})
	revoked := l.signer(t, access.NewKey{Scopes: scopeRead, Accounts: []string{ours}})
	changed := l.signer(t, access.NewKey{Scopes: scopeRead, Accounts: []string{ours}})
	admin := l.signer(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}})
	signs := l.signer(t, access.NewKey{Scopes: scopeRead, Accounts: []string{ours}})
	linkTo := func(life time.Duration) string {
		return "account=ours&prefix=a/&" + l.linkFor(t, signs, link.Read, ours, "a/", life)[1:]
	}
	streams := map[string]*stream{
		"revoked":      l.open(t, http.DefaultClient, "account=ours", keyHeader(revoked.credential)...),
		"changed":      l.open(t, http.DefaultClient, "account=ours", keyHeader(changed.credential)...),
		"closed":       l.open(t, http.DefaultClient, "account=ours&prefix=public/"),
		"expired link": l.open(t, http.DefaultClient, linkTo(2*time.Second)),
	}
	stays := map[string]*stream{
		"all accounts": l.open(t, http.DefaultClient, "", keyHeader(admin.credential)...),
		"link":         l.open(t, http.DefaultClient, linkTo(time.Hour)),
	}
	testenv.OK(t, testenv.Error(l.meta.RevokeKey(t.Context(), revoked.id, nil)))
	testenv.OK(t, testenv.Error(access.Update(t.Context(), l.meta, changed.id, access.KeyChange{Grants: []keys.Grant{grantOf("read", "theirs")}})))
	l.set(t, ours, "public/", false, places.Settings{})
	for name, e := range streams {
		if err := e.end(t); err == nil {
			t.Errorf("%s: the stream has ended as if it were complete", name)
		}
	}
	l.store(t, "a/x")
	for name, e := range stays {
		e.next(t)
		if got := e.change(t).Name; got != "a/x" {
			t.Errorf("%s: the stream has a change of %s", name, got)
		}
	}
	l.refused(t, 401, wire.CodeCredentialUnknown, "GET", "/v1/changes?account=ours&prefix=b/&"+l.link(t, signs, link.Read, ours, "a/")[1:], "")
	l.refused(t, 401, wire.CodeCredentialUnknown, "GET", "/v1/changes?"+l.link(t, signs, link.Read, ours, "a/")[1:], "")
}

// TestRevokedKeyGetsNoMore: changes behind a key's revocation are not sent.
// Invariant 228.
func TestRevokedKeyGetsNoMore(t *testing.T) {
	h := newHosted(t, access.ReadsKey, access.ScopeRead)
	key, secret := h.key(t, access.NewKey{Scopes: scopeRead, Accounts: []string{ours}})
	e := h.open(t, http.DefaultClient, "account=ours", keyHeader(secret)...)
	e.next(t)
	h.waiting(t, 1)
	testenv.OK(t, testenv.Error(h.meta.RevokeKey(t.Context(), key.ID, nil)))
	h.putOurs(t, "secret")
	for e.lines.Scan() {
		if strings.Contains(e.lines.Text(), "secret") {
			t.Fatalf("the stream goes on with %s", e.lines.Text())
		}
	}
	waits := make(chan string)
	key, secret = h.key(t, access.NewKey{Scopes: scopeRead, Accounts: []string{ours}})
	go func() {
		_, body := h.do(t, "GET", "/v1/changes?account=ours&wait=60", "", keyHeader(secret)...)
		waits <- body
	}()
	h.waiting(t, 1)
	testenv.OK(t, testenv.Error(h.meta.RevokeKey(t.Context(), key.ID, nil)))
	h.putOurs(t, "secret")
	if body := <-waits; strings.Contains(body, "secret") || !strings.Contains(body, "credential_unknown") {
		t.Errorf("the page is %s", body)
	}
}

// longRecord is a record with endless changes, none in one account.
type longRecord struct {
	metastore.Changes

	looked func() // called when the account's changes are read
}

func (r longRecord) ListChanges(ctx context.Context, q metastore.ChangeQuery) (metastore.ChangePage, error) {
	if q.All {
		return r.Changes.ListChanges(ctx, q)
	}
	r.looked()
	q.After.Number++
	return metastore.ChangePage{Next: q.After, More: true}, nil
}

// TestDelayedStream: changes that a stream does not select count against its caller's rate, too.
// While that delays the stream, it ends if its key is revoked.
// Invariant 228.
func TestDelayedStream(t *testing.T) {
	looks, limits := make(chan struct{}, 1000), make(chan *access.Allowance, 1)
	h := newHostedOver(t, nil, access.ReadsKey, access.ScopeRead, func(c *Config) {
		c.Changes = feed.New(longRecord{c.Inspection.(metastore.Changes), func() {
			allowance := <-limits
			for range 1000 {
				allowance.Spend(1) // far beyond the rate, once the request has entered
			}
			limits <- allowance
			looks <- struct{}{}
		}}, feed.Options{})
	})
	key, auth := h.limited(t, access.ScopeRead, keys.Limits{RequestsPerSecond: 1})
	allowance := h.Limiter().OfKey(testenv.Must(h.keys.Authenticate(t.Context(), auth[1]))(t))
	defer allowance.Release()
	limits <- allowance
	e := h.open(t, http.DefaultClient, "account=ours&after=start", auth...)
	e.next(t)
	<-looks
	testenv.OK(t, testenv.Error(h.meta.RevokeKey(t.Context(), key.ID, nil)))
	if err := e.end(t); err == nil {
		t.Error("the stream has ended as if it were complete")
	}
	testenv.Equal(t, len(looks), 0, "pages beyond the rate")
}

// TestChangesDiscloseNothing: who may list but not read sees no ETag, content type or version of a
// blob, and nothing of versions that are not current.
// Invariant 228.
func TestChangesDiscloseNothing(t *testing.T) {
	h := newHosted(t, access.ReadsKey, access.ScopeRead)
	h.set(t, ours, "", false, places.Settings{MayOpen: true, Lists: "public"})
	h.set(t, ours, "public/", false, places.Settings{Reads: "public"})
	h.lockable(t, ours)
	for _, name := range []string{"a", "public/a"} {
		h.putOurs(t, name)
	}
	_, owner := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}})
	version := h.changes(t, "account=ours&after=start", h.right.headers...).Changes[0].Version
	h.want(t, 200, "PATCH", "/v1/versions/ours/"+version+"/a", `{"hold": true}`, keyHeader(owner)...)
	h.want(t, 204, "DELETE", "/v1/blobs/ours/a", "", keyHeader(owner)...)
	all := h.changes(t, "account=ours&after=start", h.right.headers...).Changes
	testenv.Equal(t, kindsOf(all), "stored:a stored:public/a locked:a marked:a", "the changes for a key")
	for _, c := range all {
		if (c.ETag == "") != (c.Kind == "marked") || c.Version == "" {
			t.Errorf("with a key: %+v", c)
		}
	}
	all = h.changes(t, "account=ours&after=start").Changes
	testenv.Equal(t, kindsOf(all), "stored:a stored:public/a marked:a", "the changes for everybody")
	for _, c := range all {
		open := strings.HasPrefix(c.Name, "public/")
		if (c.ETag != "") != open || (c.ContentType != "") != open || c.Version != "" {
			t.Errorf("without a key: %+v", c)
		}
	}
	h.refused(t, 401, wire.CodeCredentialRequired, "GET", "/v1/changes", "")
	h.refused(t, 403, wire.CodeScopeMissing, "GET", "/v1/changes", "", h.right.headers...)
	_, part := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}, Accounts: []string{ours}})
	h.refused(t, 403, wire.CodeAccountForbidden, "GET", "/v1/changes", "", keyHeader(part)...)
	h.refused(t, 403, wire.CodeAccountForbidden, "GET", "/v1/changes?account=theirs", "", h.right.headers...)
}

// TestChangesByLink: a link shows changes of blobs that it reads, and nothing about versions.
// Invariant 228.
func TestChangesByLink(t *testing.T) {
	l := newLinking(t, access.ReadsKey)
	l.lockable(t, ours)
	signs := l.signer(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}, Accounts: []string{ours}})
	auth := keyHeader(signs.credential)
	l.store(t, "a/x")
	l.store(t, "b")
	version := l.changes(t, "account=ours&after=start", auth...).Changes[0].Version
	l.want(t, 200, "PATCH", "/v1/versions/ours/"+version+"/a/x", `{"hold": true}`, auth...)
	testenv.Equal(t, kindsOf(l.changes(t, "account=ours&after=start", auth...).Changes), "stored:a/x stored:b locked:a/x", "the changes for a key")
	all := l.changes(t, "account=ours&prefix=a/&after=start&"+l.link(t, signs, link.Read, ours, "a/")[1:]).Changes
	testenv.Equal(t, kindsOf(all), "stored:a/x", "the changes by a link")
	if all[0].Version != "" || all[0].ETag == "" || all[0].ContentType == "" {
		t.Errorf("by a link: %+v", all[0])
	}
}

// TestWaitingHoldsNoSlot: a key with one concurrent request follows two streams beside it,
// and no more than the hub permits.
// Invariant 229.
func TestWaitingHoldsNoSlot(t *testing.T) {
	h := newHostedOver(t, nil, access.ReadsKey, access.ScopeRead, func(c *Config) {
		c.Changes = feed.New(c.Inspection.(metastore.Changes), feed.Options{OwnerReaders: 2})
	})
	_, auth := h.limited(t, access.ScopeRead, keys.Limits{ConcurrentRequests: 1})
	a := h.open(t, http.DefaultClient, "account=ours", auth...)
	a.next(t)
	b := h.open(t, http.DefaultClient, "account=ours", auth...)
	b.next(t)
	h.waiting(t, 2)
	h.want(t, 200, "GET", "/v1/blobs/ours", "", auth...)
	h.refused(t, 429, wire.CodeTooManyAtOnce, "GET", "/v1/changes?account=ours&wait=1", "", auth...)
	h.refused(t, 429, wire.CodeTooManyAtOnce, "GET", "/v1/changes?account=ours", "", append(auth, "Accept", "text/event-stream")...)
	_, other := h.limited(t, access.ScopeRead, keys.Limits{})
	h.want(t, 200, "GET", "/v1/changes?account=ours&wait=1", "", other...)
	testenv.OK(t, a.body.Close())
	h.waiting(t, 1)
	h.want(t, 200, "GET", "/v1/changes?account=ours&wait=1", "", auth...)
}

// putOurs stores a blob in the account ours.
func (s *service) putOurs(t testing.TB, name string) {
	t.Helper()
	testenv.OK(t, testenv.Error(s.blobs.Put(t.Context(), blob.PutOptions{Account: ours, Name: name}, strings.NewReader(name), int64(len(name)))))
}
