package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/access"
	"sluice/admin"
	"sluice/test/testenv"
	"sluice/wire"
	"sluice/wire/link"
)

// TestLocksOverHTTP: a lock is shown to keys alone, its refusal has the time of its end, a
// compliance retention stays whoever asks, and only broken locks are recorded.
// Invariant 216.
func TestLocksOverHTTP(t *testing.T) {
	l := newLinking(t, access.ReadsPublic, withAdmin)
	l.lockable(t, ours)
	key := l.signer(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}})
	owner := keyHeader(key.credential)
	in := func(hours int) string {
		return l.now().UTC().Truncate(time.Second).Add(time.Duration(hours) * time.Hour).Format(time.RFC3339)
	}
	with := func(headers ...string) []string { return append(headers, owner...) }
	retention := func(mode string, hours int) string {
		return fmt.Sprintf(`{"retention": {"mode": %q, "until": %q}}`, mode, in(hours))
	}
	const at = "/v1/blobs/ours/a"
	res, _ := l.want(t, 204, "PUT", at, "x", with(wire.HeaderRetainMode, "governance", wire.HeaderRetainUntil, in(3))...)
	path := "/v1/versions/ours/" + res.Header.Get(wire.HeaderBlobVersion) + "/a"
	for _, of := range []string{path, at} {
		res, _ := l.want(t, 200, "HEAD", of, "", owner...)
		testenv.Equal(t, res.Header.Get(wire.HeaderRetainMode)+" "+res.Header.Get(wire.HeaderRetainUntil), "governance "+in(3), "the lock of %s", of)
	}
	res, _ = l.want(t, 200, "HEAD", at, "")
	testenv.Equal(t, res.Header.Get(wire.HeaderRetainMode), "", "the lock that everybody sees")
	if _, body := l.refused(t, 403, wire.CodeLocked, "DELETE", path, "", owner...); !strings.Contains(body, "governance until "+in(3)) {
		t.Errorf("the refusal has no time: %s", body)
	}
	_, body := l.want(t, 200, "PATCH", path, retention("governance", 4), owner...)
	testenv.Equal(t, strings.TrimSpace(body), `{"retention":{"mode":"governance","until":"`+in(4)+`"}}`, "the response")
	l.refused(t, 403, wire.CodeLocked, "PATCH", path, `{"retention": null}`, with(wire.HeaderBypass, "false")...)
	l.want(t, 200, "PATCH", path, retention("governance", 2), with(wire.HeaderBypass, "true")...)
	l.want(t, 200, "PATCH", path, `{"retention": null, "hold": true}`, with(wire.HeaderBypass, "true")...)
	l.want(t, 200, "PATCH", path, `{"hold": false}`, owner...)
	l.want(t, 200, "PATCH", path, retention("compliance", 2), owner...)
	l.refused(t, 403, wire.CodeLocked, "DELETE", path, "", with(wire.HeaderBypass, "true")...)
	l.refused(t, 403, wire.CodeLocked, "PATCH", path, `{"retention": null}`, with(wire.HeaderBypass, "true")...)

	_, body = l.want(t, 200, "GET", "/v1/admin/actions", "", owner...)
	var recorded []string
	for _, a := range decodedAs[wire.ActionPage](t, body).Actions {
		if a.Action == "lock.bypass" {
			recorded = append(recorded, a.Subject+" by "+a.Key)
		}
	}
	testenv.Equal(t, fmt.Sprint(recorded), fmt.Sprintf("[ours/a by %[1]s ours/a by %[1]s]", key.id), "the recorded bypasses")
	l.refused(t, 403, wire.CodeLinkForbidden, "PUT", "/v1/blobs/ours/b"+l.link(t, key, link.Create, ours, "b"), "x", wire.HeaderHold, "true")
	l.refused(t, 404, wire.CodeBlobNotFound, "GET", "/v1/blobs/ours/b", "")
}

// withAdmin lets administrators administer a service.
func withAdmin(c *Config) { c.Admin = admin.New(c.Inspection.(admin.Store), admin.Options{}) }

// TestLocksAreStrict refuses bodies that are no lock, before anything is stored or changed.
func TestLocksAreStrict(t *testing.T) {
	s := newService(t, nil)
	s.lockable(t, ours)
	s.want(t, 204, "PUT", "/v1/blobs/ours/a", "x")
	path := s.version(t, "a")
	future, past := "2999-01-02T15:04:05Z", "2001-01-02T15:04:05Z"
	for body, code := range map[string]wire.Code{
		``: wire.CodeBadJSON, `{}`: wire.CodeBadJSON, `[]`: wire.CodeBadJSON, `{"hold": true, "mode": "governance"}`: wire.CodeBadJSON, `{"hold": "yes"}`: wire.CodeBadJSON,
		`{"hold": true, "hold": false}`: wire.CodeBadJSON, `{"retention": {"mode": "governance", "until": "tomorrow"}}`: wire.CodeBadJSON, `{"hold": null}`: wire.CodeBadJSON,
		`{"retention": {"mode": "governance"}}`: wire.CodeBadParameter, `{"retention": {"until": "` + future + `"}}`: wire.CodeBadParameter,
		`{"retention": {"mode": "other", "until": "` + future + `"}}`:                 wire.CodeBadParameter,
		`{"retention": {"mode": "governance", "until": "` + past + `"}}`:              wire.CodeBadParameter,
		`{"retention": {"mode": "governance", "until": "` + future + `"}}`:            wire.CodeBadParameter,
		`{"retention": {"mode": "governance", "until": "` + future + `", "days": 3}}`: wire.CodeBadJSON,
	} {
		s.refused(t, 400, code, "PATCH", path, body)
	}
	for _, headers := range [][]string{
		{wire.HeaderHold, "yes"}, {wire.HeaderRetainMode, "governance"}, {wire.HeaderRetainUntil, future}, {wire.HeaderRetainMode, "governance", wire.HeaderRetainUntil, "soon"},
	} {
		s.refused(t, 400, wire.CodeBadHeader, "PUT", "/v1/blobs/ours/a", "y", headers...)
	}
	s.refused(t, 400, wire.CodeBadHeader, "PATCH", path, `{"hold": true}`, wire.HeaderBypass, "1")
	s.refused(t, 400, wire.CodeBadHeader, "DELETE", path, "", wire.HeaderBypass, "TRUE")
	s.refused(t, 400, wire.CodeBadParameter, "PUT", "/v1/blobs/ours/a", "y", wire.HeaderRetainMode, "governance", wire.HeaderRetainUntil, past)
	s.refused(t, 412, wire.CodePreconditionFailed, "PATCH", path, `{"hold": true}`, "If-Match", `"other"`)
	s.refused(t, 404, wire.CodeBlobNotFound, "PATCH", strings.Replace(path, "/a", "/b", 1), `{"hold": true}`)
	s.refused(t, 400, wire.CodeBadRequest, "PUT", "/v1/blobs/theirs/a", "x", wire.HeaderHold, "true")
	res, body := s.want(t, 200, "GET", path, "")
	if body != "x" || res.Header.Get(wire.HeaderHold)+res.Header.Get(wire.HeaderRetainMode) != "" {
		t.Errorf("after refused requests: %q, %v", body, res.Header)
	}
	s.want(t, 200, "PATCH", path, `{"hold": true}`, "If-Match", res.Header.Get("ETag"))
	s.refused(t, http.StatusForbidden, wire.CodeLocked, "DELETE", path, "")
}
