package keys

import (
	"testing"

	"sluice/test/testenv"
	"sluice/wire"
)

// TestKeyRowsCountAccounts: a row has the account of all grants, or how many accounts there are.
func TestKeyRowsCountAccounts(t *testing.T) {
	on := func(accounts ...string) wire.Grant { return wire.Grant{Scopes: []string{"read"}, Accounts: accounts} }
	for _, c := range []struct {
		scopes, accounts string
		grants           []wire.Grant
	}{
		{"read", "all", []wire.Grant{on()}}, {"read", "a", []wire.Grant{on("a")}}, {"read", "2", []wire.Grant{on("b", "a")}},
		{"read", "a/p/", []wire.Grant{{Scopes: []string{"read"}, Accounts: []string{"a"}, Prefix: "p/"}}},
		{"several grants", "a", []wire.Grant{on("a"), on("a")}}, {"several grants", "3", []wire.Grant{on("b", "a"), on("a", "c")}}, {"several grants", "all", []wire.Grant{on("a"), on()}},
	} {
		cells := keyCells(wire.Key{ID: "k", Grants: c.grants})
		testenv.Equal(t, cells[2]+" on "+cells[3], c.scopes+" on "+c.accounts, "the row of %v", c.grants)
	}
}

func TestPrintableTexts(t *testing.T) {
	for text, want := range map[string]string{
		"bob": "bob", "0xab": "0xab", "": `""`, "two words": `"two words"`, "a,b": `"a,b"`,
		"\x1b[31m": `"\x1b[31m"`, "a\nb": `"a\nb"`, "\u202eevil": `"\u202eevil"`, `"`: `"\""`, "müller": "müller",
	} {
		testenv.Equal(t, printable(text), want, "what is shown of %q", text)
	}
}
