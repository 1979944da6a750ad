package access

import (
	"fmt"
	"slices"
)

// Scope is a class of operations that a key permits.
type Scope string

// The scopes.
const (
	ScopeRead     Scope = "read"     // reading and listing blobs, without paying
	ScopeCreate   Scope = "create"   // storing blobs where there are none, and the group's uploads
	ScopeWrite    Scope = "write"    // create, and replacing, moving and deleting blobs
	ScopeRetain   Scope = "retain"   // setting and extending locks, and ending legal holds
	ScopeBypass   Scope = "bypass"   // ending retentions in the mode governance early
	ScopeChannels Scope = "channels" // creating, funding and closing channels
	ScopeAdmin    Scope = "admin"    // all of these, on the key's accounts
)

// scopeSet is a set of scopes: a bit for each.
type scopeSet uint8

// set returns the set of the scope alone, and none for an unknown one.
func (s Scope) set() scopeSet {
	switch s {
	case ScopeRead:
		return 1 << 0
	case ScopeCreate:
		return 1 << 1
	case ScopeWrite:
		return 1 << 2
	case ScopeChannels:
		return 1 << 3
	case ScopeAdmin:
		return 1 << 4
	case ScopeRetain:
		return 1 << 5
	case ScopeBypass:
		return 1 << 6
	}
	return 0
}

// included returns the scope and those that it includes.
func (s Scope) included() scopeSet {
	switch s {
	case ScopeAdmin:
		return 1<<len(scopes) - 1
	case ScopeWrite:
		return ScopeWrite.set() | ScopeCreate.set()
	}
	return s.set()
}

// scopes are all scopes, in the order in which they are stored and shown.
var scopes = []Scope{ScopeRead, ScopeCreate, ScopeWrite, ScopeRetain, ScopeBypass, ScopeChannels, ScopeAdmin}

// scopeList are the scopes for people.
const scopeList = "read, create, write, retain, bypass, channels, admin"

// ParseScopes parses the names of at least one scope and removes duplicates. It returns
// ErrInvalidKey if there is none or one is unknown.
func ParseScopes(names []string) ([]Scope, error) {
	parsed := make([]Scope, len(names))
	for i, name := range names {
		parsed[i] = Scope(name)
	}
	return ordered(parsed)
}

// ordered returns the scopes sorted, without duplicates.
func ordered(list []Scope) ([]Scope, error) {
	for _, s := range list {
		if !slices.Contains(scopes, s) {
			return nil, fmt.Errorf("%w: %q is not a scope; the scopes are %s", ErrInvalidKey, s, scopeList)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: it needs a scope; the scopes are %s", ErrInvalidKey, scopeList)
	}
	return slices.DeleteFunc(slices.Clone(scopes), func(s Scope) bool { return !slices.Contains(list, s) }), nil
}
