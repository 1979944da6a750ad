package http

import (
	"strings"
	"testing"

	"sluice/e2e"
)

// TestAccountsAreForAdmins: on a hosted network only a key with the scope admin for all accounts
// lists them.
func TestAccountsAreForAdmins(t *testing.T) {
	t.Parallel()
	s := e2e.StartHosted(t, "public")
	admin := s.AsAdmin()
	admin.Must(204, "PUT", e2e.BlobTarget("bob", "name"), []byte("text"))
	e2e.CheckProblem(t, s.Do("GET", "/v1/accounts", nil), 401, "credential_required")
	e2e.CheckProblem(t, s.As("sluice_wrong").Do("GET", "/v1/accounts", nil), 401, "credential_unknown")
	e2e.CheckProblem(t, s.As(s.NewKey("--scopes", "read,write,channels", "--all-accounts")).Do("GET", "/v1/accounts", nil), 403, "scope_missing")
	e2e.CheckProblem(t, s.As(s.NewKey("--scopes", "admin", "--accounts", "bob")).Do("GET", "/v1/accounts", nil), 403, "account_forbidden")
	if list := admin.Must(200, "GET", "/v1/accounts", nil); strings.TrimSpace(string(list.Body)) != `{"accounts":[{"account":"bob","blobs":1,"bytes":4}]}` {
		t.Errorf("the list is %s", list.Body)
	}
}
