package access

import (
	"fmt"
	"slices"
	"time"

	"sluice/access/keys"
)

// Caller is the holder of a valid key. It is immutable: Authenticate returns a new Caller after the
// key has changed.
type Caller struct {
	key      keys.Key
	s3Secret string // "": there is none, or it cannot be opened

	signed bool    // reports whether they have shown the S3 secret, and not the key itself
	signer *Caller // the same, signed; nil without an S3 secret
}

func newCaller(key keys.Key, s3Secret string) *Caller {
	key.Accounts = slices.Clone(key.Accounts) // nil stays nil
	slices.Sort(key.Accounts)
	key.S3Secret = nil
	c := &Caller{key: key, s3Secret: s3Secret}
	if s3Secret != "" {
		c.signer = &Caller{key: key, s3Secret: s3Secret, signed: true}
	}
	return c
}

// ID returns the key's id, which is not secret.
func (c *Caller) ID() string { return c.key.ID }

// Group returns the name of the keys that share limits with this one. The group is also the owner:
// it is charged for their blobs.
func (c *Caller) Group() string { return c.key.Group }

// Limits returns the group's limits; 0 stands for the service's default.
func (c *Caller) Limits() keys.Limits { return c.key.Limits }

// AllAccounts reports whether the key is valid for all accounts.
func (c *Caller) AllAccounts() bool { return c.key.Accounts == nil }

// Accounts returns the accounts for which the key is valid, sorted; nil stands for all.
func (c *Caller) Accounts() []string { return slices.Clone(c.key.Accounts) }

// Has reports whether the key has the scope, or one that includes it, for any accounts.
func (c *Caller) Has(scope Scope) bool {
	for _, s := range c.key.Scopes {
		if Scope(s) == scope || Scope(s) == ScopeAdmin || Scope(s) == ScopeWrite && scope == ScopeCreate {
			return true
		}
	}
	return false
}

// Allows returns nil if the key has the scope for the account, which must be in its canonical
// form. The empty account stands for one that is not known yet; only a key for all accounts
// is valid for it. It returns ErrScope or ErrAccount otherwise.
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

// valid reports whether the key has neither expired nor been revoked.
func (c *Caller) valid(now time.Time) bool {
	return c.key.Revoked.IsZero() && (c.key.Expires.IsZero() || c.key.Expires.After(now))
}
