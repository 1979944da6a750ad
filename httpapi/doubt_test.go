package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sluice/access"
	"sluice/database"
	"sluice/database/whole"
	"sluice/internal/testenv"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/wire"
)

// unsureStore is a store that fails to list sessions, or loses the results of its commits, as its
// fields say.
type unsureStore struct {
	whole.Database
	noSessions, loses atomic.Bool
}

func (s *unsureStore) ChannelSessions(ctx context.Context, id string, limit int) ([]ledger.Session, error) {
	if s.noSessions.Load() {
		return nil, fmt.Errorf("listing: %w", database.ErrUnavailable)
	}
	return s.Database.ChannelSessions(ctx, id, limit)
}

// doubt is the error for a commit that took effect.
func (s *unsureStore) doubt(err error) error {
	if err == nil && s.loses.Load() {
		err = fmt.Errorf("commit: %w", database.ErrUnknownOutcome)
	}
	return err
}

func (s *unsureStore) OpenChannel(ctx context.Context, c ledger.Channel, idem *ledger.Idempotency) (ledger.Channel, error) {
	c, err := s.Database.OpenChannel(ctx, c, idem)
	if err = s.doubt(err); err != nil {
		return ledger.Channel{}, err
	}
	return c, nil
}

func (s *unsureStore) AddDeposit(ctx context.Context, id string, amount int64, idem *ledger.Idempotency) (ledger.Channel, error) {
	c, err := s.Database.AddDeposit(ctx, id, amount, idem)
	return c, s.doubt(err)
}

func (s *unsureStore) CreateSession(ctx context.Context, one ledger.Session, idem *ledger.Idempotency) (ledger.Session, error) {
	one, err := s.Database.CreateSession(ctx, one, idem)
	if err = s.doubt(err); err != nil {
		return ledger.Session{}, err
	}
	return one, nil
}

func (s *unsureStore) UseSession(ctx context.Context, id string, n int64, idem *ledger.Idempotency) (ledger.Session, error) {
	one, err := s.Database.UseSession(ctx, id, n, idem)
	return one, s.doubt(err)
}

func (s *unsureStore) BeginUpload(ctx context.Context, u metastore.Upload) (metastore.Upload, error) {
	u, err := s.Database.BeginUpload(ctx, u)
	if err = s.doubt(err); err != nil {
		return metastore.Upload{}, err
	}
	return u, nil
}

// newUnsure starts a local service over an unsureStore.
func newUnsure(t *testing.T) (*service, *unsureStore) {
	t.Helper()
	var unsure *unsureStore
	s := startOver(t, func(m whole.Database) whole.Database {
		unsure = &unsureStore{Database: m}
		return unsure
	}, nil, nil)
	return s, unsure
}

// TestNothingIsRefusedAfterACommit: a committed change is reported as such even if nothing can be
// read afterwards.
func TestNothingIsRefusedAfterACommit(t *testing.T) {
	s, store := newUnsure(t)
	const channels = "/v1/sessions/micropaymentchannels"
	store.noSessions.Store(true)
	res, body := s.do(t, "POST", channels, `{"deposit": "100"}`)
	var c wire.Channel
	if err := json.Unmarshal([]byte(body), &c); err != nil || res.StatusCode != http.StatusCreated || c.Deposit != "100" || c.Sessions != nil {
		t.Fatalf("open: %d %s (%v)", res.StatusCode, body, err)
	}
	for _, step := range []struct{ path, body, deposit, state string }{
		{"/deposit", `{"amount": "5"}`, "105", "open"},
		{"/close", ``, "105", "closed"},
	} {
		res, body := s.do(t, "POST", channels+"/"+c.ChannelID+step.path, step.body)
		var got wire.Channel
		if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != http.StatusOK || got.Deposit != step.deposit || got.State != step.state || got.Sessions != nil {
			t.Errorf("%s: %d %s (%v)", step.path, res.StatusCode, body, err)
		}
	}
	res, body = s.do(t, "GET", channels+"/"+c.ChannelID, "")
	wantProblem(t, res, body, http.StatusServiceUnavailable, wire.CodeUnavailable)
	store.noSessions.Store(false)
	res, body = s.do(t, "GET", channels+"/"+c.ChannelID, "")
	var got wire.Channel
	if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != http.StatusOK || got.Sessions == nil || got.Deposit != "105" {
		t.Errorf("state: %d %s (%v)", res.StatusCode, body, err)
	}
}

// TestUnknownOutcomeNamesWhereToLook: an unknown outcome is reported with the id by which the
// client can check, and whether it may retry.
func TestUnknownOutcomeNamesWhereToLook(t *testing.T) {
	s, store := newUnsure(t)
	_, body := s.do(t, "POST", "/v1/sessions", "")
	var session wire.Session
	testenv.OK(t, json.Unmarshal([]byte(body), &session))
	_, body = s.do(t, "POST", "/v1/sessions/micropaymentchannels", "")
	var channel wire.Channel
	testenv.OK(t, json.Unmarshal([]byte(body), &channel))
	store.loses.Store(true)
	for i, c := range []struct {
		path, body string
		keyed      bool   // sent with an Idempotency-Key
		again      bool   // may be sent again
		look       string // path before the id
	}{
		{path: "/v1/sessions/micropaymentchannels", look: "/v1/sessions/micropaymentchannels/"},
		{path: "/v1/sessions/micropaymentchannels", keyed: true, again: true},
		{path: "/v1/sessions/micropaymentchannels/" + channel.ChannelID + "/deposit", body: `{"amount": "1"}`},
		{path: "/v1/sessions/micropaymentchannels/" + channel.ChannelID + "/deposit", body: `{"amount": "1"}`, keyed: true, again: true},
		{path: "/v1/sessions", again: true, look: "/v1/sessions/"},
		{path: "/v1/sessions", keyed: true, again: true},
		{path: "/v1/sessions/" + session.SessionID + "/use"},
		{path: "/v1/sessions/" + session.SessionID + "/use", keyed: true, again: true},
		{path: "/v1/multipart-uploads", body: `{"rawAccount": "1", "rawBlobName": "n"}`, again: true, look: "/v1/multipart-uploads/"},
	} {
		t.Run(fmt.Sprint(c.path, " keyed ", c.keyed), func(t *testing.T) {
			var headers []string
			if c.keyed {
				headers = []string{wire.HeaderIdempotencyKey, strconv.Itoa(i)}
			}
			res, body := s.do(t, "POST", c.path, c.body, headers...)
			wantProblem(t, res, body, http.StatusServiceUnavailable, wire.CodeOutcomeUnknown)
			var p wire.Problem
			testenv.OK(t, json.Unmarshal([]byte(body), &p))
			if p.Retryable == nil || *p.Retryable != c.again || (res.Header.Get("Retry-After") != "") != c.again {
				t.Errorf("Retry-After %q: %s", res.Header.Get("Retry-After"), body)
			}
			id := p.ChannelID + p.SessionID + p.UploadID
			if (id != "") != (c.look != "") {
				t.Fatalf("the id %q: %s", id, body)
			}
			if id == "" {
				return
			}
			if res, body := s.do(t, "GET", c.look+id, ""); res.StatusCode != http.StatusOK {
				t.Errorf("looking for %s: %d %s", id, res.StatusCode, body)
			}
		})
	}
}

// TestScopeOfAnIdempotencyKeyCannotBeForged: an Idempotency-Key's scope cannot be forged by the
// path of another request.
func TestScopeOfAnIdempotencyKeyCannotBeForged(t *testing.T) {
	h := newHosted(t, ReadsPublic, access.ScopeChannels)
	made, err := h.meta.CreateSession(t.Context(), ledger.Session{ID: "AAAA", Total: 5, Left: 5, Expires: time.Now().Add(time.Hour)}, nil)
	testenv.OK(t, err)
	k, secret := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeRead}})
	if res, body := h.do(t, "POST", "/v1/sessions/"+made.ID+"/use", "", "X-Api-Key", secret, wire.HeaderIdempotencyKey, "k"); res.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	res, body := h.do(t, "POST", "/v1/sessions/"+made.ID+"%20by%20key%20"+k.ID+"/use", "", wire.HeaderIdempotencyKey, "k")
	wantProblem(t, res, body, http.StatusNotFound, wire.CodeSessionNotFound)
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
