package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/wire"
)

// accounts returns all accounts that the server lists, in pages of limit.
func (s *server) accounts(limit int) []wire.Account {
	s.t.Helper()
	var all []wire.Account
	for after := ""; ; {
		var page wire.AccountPage
		s.must(200, "GET", fmt.Sprintf("/v1/accounts?limit=%d&after=%s", limit, after), nil).decode(s.t, &page)
		all = append(all, page.Accounts...)
		if page.Next == "" {
			return all
		}
		if len(page.Accounts) != limit || page.Next != all[len(all)-1].Account {
			s.t.Fatalf("a page by %d of %d accounts has next %q", limit, len(page.Accounts), page.Next)
		}
		after = page.Next
	}
}

// TestAccounts stores and deletes blobs of several accounts: every page size lists the same
// accounts, with the counts of every acknowledged write.
func TestAccounts(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	if r := s.must(200, "GET", "/v1/accounts", nil); strings.TrimSpace(string(r.body)) != `{"accounts":[]}` {
		t.Errorf("an empty instance lists %s", r.body)
	}
	var want []wire.Account
	for i, account := range []string{"bob", "0x2", "alice", "0x1"} {
		for k := range i + 1 {
			s.must(204, "PUT", blobTarget(account, fmt.Sprint("name", k)), content(uint64(k), 1000*i))
		}
		want = append(want, wire.Account{Account: account, Blobs: int64(i + 1), Bytes: int64(1000 * i * (i + 1))})
	}
	slices.SortFunc(want, func(a, b wire.Account) int { return cmp.Compare(a.Account, b.Account) })
	for _, limit := range []int{1, 2, 3, 1000, 5000} {
		if got := s.accounts(limit); !slices.Equal(got, want) {
			t.Errorf("by %d: %+v, want %+v", limit, got, want)
		}
	}
	s.must(204, "PUT", blobTarget("bob", "name0"), content(1, 7))
	s.must(204, "DELETE", blobTarget("0x1", "name0"), nil)
	s.must(204, "DELETE", blobTarget("0x1", "name0"), nil)
	for k := range 3 {
		s.must(204, "DELETE", blobTarget("alice", fmt.Sprint("name", k)), nil)
	}
	want = slices.DeleteFunc(want, func(a wire.Account) bool { return a.Account == "alice" })
	want[0].Blobs, want[0].Bytes = want[0].Blobs-1, want[0].Bytes-3000
	want[2].Bytes = 7
	s.stop()
	s = start(t, options{data: s.data})
	if got := s.accounts(1000); !slices.Equal(got, want) {
		t.Errorf("after deletes and a restart: %+v, want %+v", got, want)
	}
	if r := s.must(200, "GET", "/v1/accounts?after="+want[1].Account, nil); !strings.Contains(string(r.body), `"bob"`) || strings.Contains(string(r.body), "0x") {
		t.Errorf("after %s: %s", want[1].Account, r.body)
	}
}

// TestAccountsAreForAdmins: on a hosted network only a key with the scope admin for all accounts
// lists them.
func TestAccountsAreForAdmins(t *testing.T) {
	t.Parallel()
	s := startHosted(t, "public")
	admin := s.asAdmin()
	admin.must(204, "PUT", blobTarget("bob", "name"), []byte("text"))
	checkProblem(t, s.do("GET", "/v1/accounts", nil), 401, "credential_required")
	checkProblem(t, s.as("sluice_wrong").do("GET", "/v1/accounts", nil), 401, "credential_unknown")
	checkProblem(t, s.as(s.newKey("--scopes", "read,write,channels", "--all-accounts")).do("GET", "/v1/accounts", nil), 403, "scope_missing")
	checkProblem(t, s.as(s.newKey("--scopes", "admin", "--accounts", "bob")).do("GET", "/v1/accounts", nil), 403, "account_forbidden")
	if got, want := admin.accounts(10), []wire.Account{{Account: "bob", Blobs: 1, Bytes: 4}}; !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
