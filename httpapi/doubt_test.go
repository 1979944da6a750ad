package httpapi

import (
	"fmt"
	"strconv"
	"testing"

	"sluice/access"
	"sluice/database"
	"sluice/wire"
)

// TestNothingIsRefusedAfterACommit: a committed change is reported as such even if nothing can be
// read afterwards.
// Invariant 60.
func TestNothingIsRefusedAfterACommit(t *testing.T) {
	s, store, _ := newFailing(t)
	const channels = "/v1/sessions/micropaymentchannels"
	store.noSessions.Store(true)
	_, body := s.want(t, 201, "POST", channels, `{"deposit": "100"}`)
	c := decodedAs[wire.Channel](t, body)
	if c.Deposit != "100" || c.Sessions != nil {
		t.Fatalf("open: %s", body)
	}
	for _, step := range []struct{ path, body, deposit, state string }{
		{"/deposit", `{"amount": "5"}`, "105", "open"},
		{"/close", ``, "105", "closed"},
	} {
		_, body := s.want(t, 200, "POST", channels+"/"+c.ChannelID+step.path, step.body)
		got := decodedAs[wire.Channel](t, body)
		if got.Deposit != step.deposit || got.State != step.state || got.Sessions != nil {
			t.Errorf("%s: %s", step.path, body)
		}
	}
	s.refused(t, 503, wire.CodeUnavailable, "GET", channels+"/"+c.ChannelID, "")
	store.noSessions.Store(false)
	_, body = s.want(t, 200, "GET", channels+"/"+c.ChannelID, "")
	if got := decodedAs[wire.Channel](t, body); got.Sessions == nil || got.Deposit != "105" {
		t.Errorf("state: %s", body)
	}
}

// TestUnknownOutcomeNamesWhereToLook: an unknown outcome is reported with the id by which the
// client can check, and whether it may retry.
func TestUnknownOutcomeNamesWhereToLook(t *testing.T) {
	s, store, _ := newFailing(t)
	const sessions, channels = "/v1/sessions", "/v1/sessions/micropaymentchannels"
	use := sessions + "/" + s.newSession(t) + "/use"
	_, body := s.want(t, 201, "POST", channels, "")
	deposit := channels + "/" + decodedAs[wire.Channel](t, body).ChannelID + "/deposit"
	store.fail(fmt.Errorf("commit: %w", database.ErrUnknownOutcome))
	for i, c := range []struct {
		path, body string
		keyed      bool   // sent with an Idempotency-Key
		again      bool   // may be sent again
		look       string // path before the id
	}{
		{path: channels, look: channels + "/"},
		{path: channels, keyed: true, again: true},
		{path: deposit, body: `{"amount": "1"}`},
		{path: deposit, body: `{"amount": "1"}`, keyed: true, again: true},
		{path: sessions, again: true, look: sessions + "/"},
		{path: sessions, keyed: true, again: true},
		{path: use},
		{path: use, keyed: true, again: true},
		{path: "/v1/multipart-uploads", body: `{"rawAccount": "1", "rawBlobName": "n"}`, again: true, look: "/v1/multipart-uploads/"},
	} {
		t.Run(fmt.Sprint(c.path, " keyed ", c.keyed), func(t *testing.T) {
			var headers []string
			if c.keyed {
				headers = []string{wire.HeaderIdempotencyKey, strconv.Itoa(i)}
			}
			res, body := s.refused(t, 503, wire.CodeOutcomeUnknown, "POST", c.path, c.body, headers...)
			p := decodedAs[wire.Problem](t, body)
			if p.Retryable == nil || *p.Retryable != c.again || (res.Header.Get("Retry-After") != "") != c.again {
				t.Errorf("Retry-After %q: %s", res.Header.Get("Retry-After"), body)
			}
			id := p.ChannelID + p.SessionID + p.UploadID
			if (id != "") != (c.look != "") {
				t.Fatalf("the id %q: %s", id, body)
			}
			if id != "" {
				s.want(t, 200, "GET", c.look+id, "")
			}
		})
	}
}

// TestScopeOfAnIdempotencyKeyCannotBeForged: an Idempotency-Key's scope cannot be forged by the
// path of another request.
func TestScopeOfAnIdempotencyKeyCannotBeForged(t *testing.T) {
	h := newHosted(t, access.ReadsPublic, access.ScopeChannels)
	const sessions, idem = "/v1/sessions/", wire.HeaderIdempotencyKey
	id := h.newSession(t)
	k, secret := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeRead}})
	h.want(t, 200, "POST", sessions+id+"/use", "", "X-Api-Key", secret, idem, "k")
	forged := sessions + id + "%20by%20key%20" + k.ID + "/use"
	h.refused(t, 404, wire.CodeSessionNotFound, "POST", forged, "", idem, "k")
}

func TestScopesAreIndependent(t *testing.T) {
	seen := map[string]string{}
	for _, operation := range []string{"use-session", "create-session"} {
		for _, resource := range []string{"", "A", "A by key k", `"A"`, `A" by key "k`, `"A by key k"`, " A", "A ", "\x00", `\x00`, "é", "\xff", `\xff`} {
			for _, caller := range []string{"", " by key k"} {
				text, this := scope(operation, resource)+caller, fmt.Sprintf("%q %q %q", operation, resource, caller)
				if other, taken := seen[text]; taken {
					t.Errorf("%s and %s are both %q", this, other, text)
				}
				seen[text] = this
			}
		}
	}
	// Outcomes that previous versions stored are still found.
	for resource, want := range map[string]string{"": "use-session", "ABC234": "use-session ABC234", payer: "use-session " + payer} {
		if got := scope("use-session", resource); got != want {
			t.Errorf("%q for %q, want %q", got, resource, want)
		}
	}
}
