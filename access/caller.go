package access

import (
	"fmt"
	"slices"
	"time"

	"sluice/metastore"
)

// Caller is whoever sent a key that is valid. It does not change: what is
// changed of the key is seen by the next Authenticate.
type Caller struct{ key metastore.Key }

// newCaller gives the holder of a key as the store gave it.
func newCaller(key metastore.Key) *Caller {
	key.Accounts = slices.Clone(key.Accounts) // nil stays nil
	slices.Sort(key.Accounts)
	return &Caller{key: key}
}

// ID is the id of the key. It is no secret.
func (c *Caller) ID() string { return c.key.ID }

// Group names the keys that share limits with this one, and under which what
// they store is counted.
func (c *Caller) Group() string { return c.key.Group }

// Limits are those of the group, 0 where the service's default holds.
func (c *Caller) Limits() metastore.Limits { return c.key.Limits }

// AllAccounts reports whether the key is for all accounts.
func (c *Caller) AllAccounts() bool { return c.key.Accounts == nil }

// Has reports whether the key has the scope, on whatever accounts.
func (c *Caller) Has(scope Scope) bool {
	return slices.Contains(c.key.Scopes, string(scope)) || slices.Contains(c.key.Scopes, string(ScopeAdmin))
}

// Allows reports whether the key has the scope on an account, which is in its
// canonical spelling; the empty account stands for one that is not known yet,
// which only a key for all accounts is for. ErrScope, ErrAccount.
func (c *Caller) Allows(scope Scope, account string) error {
	if !c.Has(scope) {
		return fmt.Errorf("%w %q", ErrScope, scope)
	}
	if c.AllAccounts() {
		return nil
	}
	if _, found := slices.BinarySearch(c.key.Accounts, account); !found {
		return ErrAccount
	}
	return nil
}

// valid reports whether the key may still be used.
func (c *Caller) valid(now time.Time) bool {
	return c.key.Revoked.IsZero() && (c.key.Expires.IsZero() || c.key.Expires.After(now))
}
