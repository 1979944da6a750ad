package http

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/wire"
)

// accounts returns all accounts that the server lists, in pages of limit.
func accounts(s *e2e.Server, limit int) []wire.Account {
	s.T.Helper()
	var all []wire.Account
	for after := ""; ; {
		var page wire.AccountPage
		s.Must(200, "GET", fmt.Sprintf("/v1/accounts?limit=%d&after=%s", limit, after), nil).Decode(s.T, &page)
		all = append(all, page.Accounts...)
		if page.Next == "" {
			return all
		}
		if len(page.Accounts) != limit || page.Next != all[len(all)-1].Account {
			s.T.Fatalf("a page by %d of %d accounts has next %q", limit, len(page.Accounts), page.Next)
		}
		after = page.Next
	}
}

// TestAccounts stores and deletes blobs of several accounts: every page size lists the same
// accounts, with the counts of every acknowledged write.
func TestAccounts(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	if r := s.Must(200, "GET", "/v1/accounts", nil); strings.TrimSpace(string(r.Body)) != `{"accounts":[]}` {
		t.Errorf("an empty instance lists %s", r.Body)
	}
	var want []wire.Account
	for i, account := range []string{"bob", "0x2", "alice", "0x1"} {
		for k := range i + 1 {
			s.Must(204, "PUT", e2e.BlobTarget(account, fmt.Sprint("name", k)), e2e.Content(uint64(k), 1000*i))
		}
		want = append(want, wire.Account{Account: account, Blobs: int64(i + 1), Bytes: int64(1000 * i * (i + 1))})
	}
	slices.SortFunc(want, func(a, b wire.Account) int { return cmp.Compare(a.Account, b.Account) })
	for _, limit := range []int{1, 2, 3, 1000, 5000} {
		if got := accounts(s, limit); !slices.Equal(got, want) {
			t.Errorf("by %d: %+v, want %+v", limit, got, want)
		}
	}
	s.Must(204, "PUT", e2e.BlobTarget("bob", "name0"), e2e.Content(1, 7))
	s.Must(204, "DELETE", e2e.BlobTarget("0x1", "name0"), nil)
	s.Must(204, "DELETE", e2e.BlobTarget("0x1", "name0"), nil)
	for k := range 3 {
		s.Must(204, "DELETE", e2e.BlobTarget("alice", fmt.Sprint("name", k)), nil)
	}
	want = slices.DeleteFunc(want, func(a wire.Account) bool { return a.Account == "alice" })
	want[0].Blobs, want[0].Bytes = want[0].Blobs-1, want[0].Bytes-3000
	want[2].Bytes = 7
	s.Stop()
	s = e2e.Start(t, e2e.Options{Data: s.Data})
	if got := accounts(s, 1000); !slices.Equal(got, want) {
		t.Errorf("after deletes and a restart: %+v, want %+v", got, want)
	}
	if r := s.Must(200, "GET", "/v1/accounts?after="+want[1].Account, nil); !strings.Contains(string(r.Body), `"bob"`) || strings.Contains(string(r.Body), "0x") {
		t.Errorf("after %s: %s", want[1].Account, r.Body)
	}
}

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
	if got, want := accounts(admin, 10), []wire.Account{{Account: "bob", Blobs: 1, Bytes: 4}}; !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
