package admin

import (
	"context"
	"fmt"

	"sluice/access"
	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/metastore"
	"sluice/wire"
)

// Bypassing calls act with a metastore.Bypass for a blob's versions, possibly several times. Its
// acts are recorded as "lock.bypass". It returns access.ErrScope, ErrAccount or ErrName of package
// access if the key lacks access.ScopeBypass there.
func (s *Service) Bypassing(ctx context.Context, by By, at metastore.BlobName, act func(metastore.Bypass) error) error {
	return s.decideWith(ctx, by, access.ScopeBypass, func(a actor) error {
		if a.key != nil && !covers(a.key.Grants, keys.Grant{Accounts: []string{at.Account}, Prefix: at.Name}, hasScope(access.ScopeBypass)) {
			return fmt.Errorf("%w: it may not end retentions here", access.ErrName)
		}
		return act(func(b *metastore.Blob, lock metastore.Lock) (*actions.Act, error) {
			before := boundLock{metastore.VersionOf(b).String(), LockOf(b.Lock)}
			var after any
			if lock != (metastore.Lock{}) {
				after = boundLock{before.Version, LockOf(lock)}
			}
			return a.act("lock.bypass", at.Account+"/"+at.Name, []string{at.Account}, before, after)
		})
	})
}

// boundLock is a recorded lock with its version's id.
type boundLock struct {
	Version string `json:"version"`
	wire.Lock
}

// LockOf returns a lock's members.
func LockOf(l metastore.Lock) (out wire.Lock) {
	if out.Hold = l.Hold; l.Mode != metastore.LockNone {
		out.Retention = &wire.Retention{Mode: string(l.Mode), Until: l.Until}
	}
	return out
}
