package httpapi

import (
	"strings"
	"testing"

	"sluice/access"
	"sluice/access/keys"
	"sluice/admin"
	"sluice/wire"
)

// placed starts a service with keyed reads and with administration, which applies the same places.
func placed(t *testing.T, hosted bool) *service {
	t.Helper()
	return administered(t, hosted, func(c *Config) {
		if hosted {
			c.Reads = access.ReadsKey
		}
		c.Admin = admin.New(c.Inspection.(admin.Store), admin.Options{Places: access.NewPlaces(c.Inspection.(admin.Store), c.Reads, 0)})
	})
}

// TestPlacesByAdministrators: who administers a place sets who may read there, as far as the
// operator permits, and only the operator blocks.
// Invariant 197.
func TestPlacesByAdministrators(t *testing.T) {
	s := placed(t, true)
	_, boss := s.issue(t, access.NewKey{Grants: []keys.Grant{grantOf("admin")}})
	of := grantOf("admin", ours)
	of.Prefix = "team/"
	_, tenant := s.issue(t, access.NewKey{Grants: []keys.Grant{of}, Group: "tenant"})
	s.want(t, 204, "PUT", "/v1/blobs/ours/team/a%2F%C3%A9", "x", boss...)
	const blobPath, at = "/v1/blobs/ours/team/a%2F%C3%A9", "/v1/admin/places/ours?prefix=team%2Fa"
	public := `{"reads":"public","lists":"public"}`
	s.refused(t, 403, wire.CodeOpeningForbidden, "PATCH", at, public, tenant...)
	s.refused(t, 403, wire.CodeOpeningForbidden, "PATCH", at, public, boss...)
	s.refused(t, 403, wire.CodeAccountForbidden, "PATCH", "/v1/admin/places/ours", `{"mayOpen":true}`, tenant...)
	s.want(t, 200, "PATCH", "/v1/admin/places/ours", `{"mayOpen":true}`, boss...)
	s.refused(t, 401, wire.CodeCredentialRequired, "GET", blobPath, "")
	s.want(t, 200, "PATCH", at, public, tenant...)
	s.want(t, 200, "GET", blobPath, "")
	s.want(t, 200, "GET", "/v1/blobs/ours?prefix=team%2Fa", "")
	s.refused(t, 401, wire.CodeCredentialRequired, "GET", "/v1/blobs/ours?prefix=team%2F", "")
	for _, beyond := range []string{"ours", "ours?prefix=team", "ours?blob=other", "theirs?prefix=team%2F"} {
		s.refused(t, 403, wire.CodeBeyondKey, "PATCH", "/v1/admin/places/"+beyond, `{"reads":"key"}`, tenant...)
		s.refused(t, 403, wire.CodeBeyondKey, "GET", "/v1/admin/places/"+beyond, "", tenant...)
	}
	single := "/v1/admin/places/ours?blob=team%2Fa%2F%C3%A9"
	s.refused(t, 403, wire.CodeAccountForbidden, "PATCH", single, `{"block":"mine"}`, tenant...)
	s.want(t, 200, "PATCH", single, `{"block":"order 7"}`, boss...)
	s.refused(t, 451, wire.CodeBlocked, "GET", blobPath, "")
	s.refused(t, 403, wire.CodeAccountForbidden, "PATCH", single, `{"block":""}`, tenant...)
	_, body := s.want(t, 200, "GET", single, "", tenant...)
	got := decodedAs[wire.PlaceRule](t, body)
	if got.Blob != "team/a/é" || got.Blocked == nil || got.InForce.Blocked.Reason != "order 7" || got.InForce.Reads != "public" || got.Reads != "" {
		t.Errorf("the place is %s", body)
	}
	s.want(t, 200, "PATCH", single, `{"block":""}`, boss...)
	s.want(t, 200, "GET", blobPath, "")
	s.want(t, 200, "PATCH", "/v1/admin/places/ours", `{"mayOpen":false}`, boss...)
	s.refused(t, 401, wire.CodeCredentialRequired, "GET", blobPath, "")
	_, body = s.want(t, 200, "GET", "/v1/admin/actions", "", boss...)
	if strings.Count(body, `"place.set"`) != 5 || strings.Count(body, `order 7`) != 2 || strings.Contains(body, "0001-01-01") {
		t.Errorf("the actions are %s", body)
	}
}
