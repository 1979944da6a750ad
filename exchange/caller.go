package exchange

import (
	"context"
	"fmt"
	"math"

	"sluice/access"
	"sluice/metastore"
)

// RequireScope requires that the caller has a key with the scope.
func (x *Exchange) RequireScope(scope access.Scope) error {
	switch {
	case x.BadCredential != nil:
		return x.BadCredential
	case x.Caller == nil:
		return ErrNoCredential
	case !x.Caller.Has(scope):
		return fmt.Errorf("%w: this needs %q", access.ErrScope, scope)
	default:
		return nil
	}
}

// Grant requires that the caller's key has the scope for the account and the blob's name or the
// list's prefix, as access.Caller.Allows has them, and remembers it for Recheck. With
// access.ScopeCreate, a key that lacks access.ScopeWrite there must not replace a blob: see
// Creating.
func (x *Exchange) Grant(scope access.Scope, account, name string) error {
	if scope == access.ScopeCreate {
		if x.onlyCreates = !x.Caller.Can(access.ScopeWrite, account, name); !x.onlyCreates {
			scope = access.ScopeWrite // which the key must still have when the request takes effect
		}
	}
	x.granted = grant{scope, account, name}
	return x.granted.allowed(x.Caller)
}

// OnlyCreates reports whether the caller's key may store new blobs only.
func (x *Exchange) OnlyCreates() bool { return x.onlyCreates }

// Creating adds to a write's conditions, which may be nil, that it replaces no blob and removes no
// version unless the caller may.
func (x *Exchange) Creating(conditions metastore.Precondition) metastore.Precondition {
	if !x.onlyCreates {
		return conditions
	}
	return func(current *metastore.Blob) error {
		if current == metastore.VersionGoes {
			return errOnlyCreatesVersions
		}
		compared := current
		if current != nil && !x.HoldsRead(x.granted.account, x.granted.name) {
			// A tag would disclose the bytes: none is the tag of this size.
			compared = &metastore.Blob{Size: math.MaxInt64, Modified: current.Modified}
		}
		if conditions != nil {
			if err := conditions(compared); err != nil {
				return err
			}
		}
		if current != nil {
			return errOnlyCreates
		}
		return nil
	}
}

// Why a key that may only create does not store a blob.
var (
	errOnlyCreates         = fmt.Errorf("%w %q: there is a blob of this name, and the key may only create", access.ErrScope, access.ScopeWrite)
	errOnlyCreatesVersions = fmt.Errorf("%w %q: a version of this name would be removed, and the key may only create", access.ErrScope, access.ScopeWrite)
)

// GrantMore is Grant for a request that needs another grant, too.
func (x *Exchange) GrantMore(scope access.Scope, account, name string) error {
	more := grant{scope, account, name}
	x.grantedMore = append(x.grantedMore, more)
	return more.allowed(x.Caller)
}

// Recheck returns why the caller may no longer make the request, or nil. It is called after work
// that may take long and before the request takes effect, for a key that was revoked or changed
// meanwhile.
func (x *Exchange) Recheck(ctx context.Context) error {
	if x.Caller == nil {
		return nil
	}
	current, err := x.service.keys.Recheck(ctx, x.Caller)
	if err != nil {
		return err
	}
	x.Caller = current
	if err := x.granted.allowed(current); err != nil {
		return err
	}
	for _, more := range x.grantedMore {
		if err := more.allowed(current); err != nil {
			return err
		}
	}
	return nil
}

// Require requires a key of the caller, and Grant's permission. It allows everything on a local
// instance.
func (x *Exchange) Require(scope access.Scope, account, name string) error {
	switch {
	case x.Local:
		return nil
	case x.Caller == nil:
		return ErrNoCredential
	default:
		return x.Grant(scope, account, name)
	}
}

// From returns the client's address, for records of its acts.
func (x *Exchange) From() string {
	if x.Client.IsValid() {
		return x.Client.Unmap().String()
	}
	return x.Request.RemoteAddr
}

// Owner returns the quota group charged for this caller's writes, or "".
func (x *Exchange) Owner() string {
	if x.Caller == nil {
		return ""
	}
	return x.Caller.Group()
}

// By returns the id of the caller's key, which versions record, or "".
func (x *Exchange) By() string {
	if x.Caller == nil {
		return ""
	}
	return x.Caller.ID()
}

// CallerScope returns an idempotency key's scope, as far as it identifies the caller.
func (x *Exchange) CallerScope() string {
	if x.Caller == nil {
		return ""
	}
	return " by key " + x.Caller.ID()
}
