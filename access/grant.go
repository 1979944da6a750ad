package access

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice/access/keys"
)

const (
	maxGrants = 16   // of a key
	maxPrefix = 1024 // bytes
)

// grant is a keys.Grant for Caller.Allows.
type grant struct {
	scopes   scopeSet // and the scopes that they include
	accounts []string // sorted; nil: all
	prefix   string
}

func newGrant(k keys.Grant) grant {
	g := grant{accounts: slices.Sorted(slices.Values(k.Accounts)), prefix: k.Prefix}
	if g.accounts == nil && k.Accounts != nil {
		g.accounts = []string{}
	}
	for _, s := range k.Scopes {
		g.scopes |= Scope(s).included()
	}
	return g
}

// has reports whether the grant is for the account.
func (g *grant) has(account string) bool {
	if g.accounts == nil {
		return true
	}
	_, found := slices.BinarySearch(g.accounts, account)
	return found
}

// CheckGrants returns a key's grants as they are stored: each one's scopes and accounts are sorted
// and without duplicates. Accounts must be in their canonical form. It returns ErrInvalidKey if a
// key cannot have them.
func CheckGrants(list []keys.Grant) ([]keys.Grant, error) {
	if len(list) == 0 || len(list) > maxGrants {
		return nil, fmt.Errorf("%w: it needs 1 to %d grants", ErrInvalidKey, maxGrants)
	}
	checked := make([]keys.Grant, len(list))
	for i, g := range list {
		var err error
		if checked[i], err = checkGrant(g); err != nil {
			return nil, err
		}
	}
	return checked, nil
}

func checkGrant(g keys.Grant) (keys.Grant, error) {
	scopes, err := ParseScopes(g.Scopes)
	if err != nil {
		return g, err
	}
	odd := g.Prefix != "" && (len(g.Prefix) > maxPrefix || !utf8.ValidString(g.Prefix) || strings.ContainsFunc(g.Prefix, unicode.IsControl))
	switch {
	case g.Accounts != nil && (len(g.Accounts) == 0 || slices.Contains(g.Accounts, "")):
		return g, fmt.Errorf("%w: its list of accounts must not be empty, nor hold an empty account", ErrInvalidKey)
	case odd:
		return g, fmt.Errorf("%w: its prefix must be at most %d bytes of UTF-8 without control characters", ErrInvalidKey, maxPrefix)
	case g.Prefix != "" && slices.Contains(scopes, ScopeChannels):
		return g, fmt.Errorf("%w: the scope %q is not about blobs, so it cannot have a prefix: give it a grant of its own", ErrInvalidKey, ScopeChannels)
	}
	stored := keys.Grant{Prefix: g.Prefix, Accounts: slices.Compact(slices.Sorted(slices.Values(g.Accounts)))}
	for _, s := range scopes {
		stored.Scopes = append(stored.Scopes, string(s))
	}
	return stored, nil
}
