package access

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/access/keys"
)

// Caller is the holder of a valid key. It is immutable: Authenticate returns a new Caller after the
// key has changed.
type Caller struct {
	key      keys.Key
	grants   []grant
	s3Secret string // "": there is none, or it cannot be opened

	signed bool    // reports whether they have shown the S3 secret, and not the key itself
	signer *Caller // the same, signed; nil without an S3 secret
}

func newCaller(key keys.Key, s3Secret string) *Caller {
	key.S3Secret = nil
	c := &Caller{key: key, s3Secret: s3Secret}
	for _, g := range key.Grants {
		c.grants = append(c.grants, newGrant(g))
	}
	if s3Secret != "" {
		signer := *c
		signer.signed = true
		c.signer = &signer
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

// Grants returns the key's grants. The caller must not change them.
func (c *Caller) Grants() []keys.Grant { return c.key.Grants }

// Accounts returns the accounts on which the key has one of the scopes, for some names at least,
// sorted; nil stands for all.
func (c *Caller) Accounts(scopes ...Scope) []string {
	accounts := []string{}
	for _, g := range c.grants {
		switch {
		case !slices.ContainsFunc(scopes, func(s Scope) bool { return g.scopes&s.set() != 0 }):
		case g.accounts == nil:
			return nil
		default:
			accounts = append(accounts, g.accounts...)
		}
	}
	slices.Sort(accounts)
	return slices.Compact(accounts)
}

// Has reports whether the key has the scope, or one that includes it, for any blobs.
func (c *Caller) Has(scope Scope) bool {
	set := scope.set()
	return slices.ContainsFunc(c.grants, func(g grant) bool { return g.scopes&set != 0 })
}

// Reaches reports whether the key has the scope for the account, and for some names at least. It
// permits nothing by itself.
func (c *Caller) Reaches(scope Scope, account string) bool {
	set := scope.set()
	return slices.ContainsFunc(c.grants, func(g grant) bool { return g.scopes&set != 0 && g.has(account) })
}

// Allows returns nil if the key has the scope for the account, which must be in its canonical form,
// and for the blob's name. For a list, name is the prefix of the listed names: a key with a prefix
// may list below it only. For what concerns a whole account name is empty, and only a key for all
// names is valid for it. The empty account stands for all of them, or one that is not known yet;
// only a key for all accounts is valid for it. Otherwise Allows returns ErrScope, ErrAccount or
// ErrName.
func (c *Caller) Allows(scope Scope, account, name string) error {
	switch {
	case c.Can(scope, account, name):
		return nil
	case !c.Has(scope):
		return fmt.Errorf("%w %q", ErrScope, scope)
	case !c.Reaches(scope, account):
		return ErrAccount
	default:
		return fmt.Errorf("%w: it has the scope %q only for names that begin with a prefix of its grants", ErrName, scope)
	}
}

// Can reports whether Allows returns nil. A refusal costs no allocation.
func (c *Caller) Can(scope Scope, account, name string) bool {
	set := scope.set()
	for i := range c.grants {
		if g := &c.grants[i]; g.scopes&set != 0 && g.has(account) && strings.HasPrefix(name, g.prefix) {
			return true
		}
	}
	return false
}

// valid reports whether the key has neither expired nor been revoked.
func (c *Caller) valid(now time.Time) bool {
	return c.key.Revoked.IsZero() && (c.key.Expires.IsZero() || c.key.Expires.After(now))
}
