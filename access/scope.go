package access

import (
	"fmt"
	"slices"
)

// Scope is a kind of operation that a key permits.
type Scope string

// The scopes.
const (
	ScopeRead     Scope = "read"     // reading and listing blobs, without paying
	ScopeWrite    Scope = "write"    // writing and deleting blobs, and uploads
	ScopeChannels Scope = "channels" // creating, funding and closing channels
	ScopeAdmin    Scope = "admin"    // all of these, on the key's accounts
)

// scopes are all of them, in the order in which they are stored and shown.
var scopes = []Scope{ScopeRead, ScopeWrite, ScopeChannels, ScopeAdmin}

// ParseScopes reads the names of at least one scope. A name that is given twice
// counts once. ErrInvalidKey.
func ParseScopes(names []string) ([]Scope, error) {
	parsed := make([]Scope, len(names))
	for i, name := range names {
		parsed[i] = Scope(name)
	}
	return ordered(parsed)
}

// ordered gives these scopes in their order, each once.
func ordered(given []Scope) ([]Scope, error) {
	for _, s := range given {
		if !slices.Contains(scopes, s) {
			return nil, fmt.Errorf("%w: %q is no scope; there are %q", ErrInvalidKey, s, scopes)
		}
	}
	if len(given) == 0 {
		return nil, fmt.Errorf("%w: it needs a scope; there are %q", ErrInvalidKey, scopes)
	}
	return slices.DeleteFunc(slices.Clone(scopes), func(s Scope) bool { return !slices.Contains(given, s) }), nil
}
