package httpapi

import (
	"context"
	"fmt"

	"sluice/access"
)

// requireScope requires that the caller has a key with the scope.
func (x *exchange) requireScope(scope access.Scope) error {
	switch {
	case x.badCredential != nil:
		return x.badCredential
	case x.caller == nil:
		return errNoCredential
	case !x.caller.Has(scope):
		return fmt.Errorf("%w: this needs %q", access.ErrScope, scope)
	default:
		return nil
	}
}

// grant requires that the caller's key has the scope for the account, and remembers it for recheck.
func (x *exchange) grant(scope access.Scope, account string) error {
	x.granted = grant{scope, account}
	return x.granted.allowed(x.caller)
}

// grantMore is grant for a request that needs a second grant.
func (x *exchange) grantMore(scope access.Scope, account string) error {
	x.grantedMore = grant{scope, account}
	return x.grantedMore.allowed(x.caller)
}

// recheck returns why the caller may no longer do what they were granted, or nil. It is called
// after what may take long and before the request takes effect, for a key that was revoked or
// changed meanwhile.
func (x *exchange) recheck(ctx context.Context) error {
	if x.caller == nil {
		return nil
	}
	current, err := x.keys.Recheck(ctx, x.caller)
	if err != nil {
		return err
	}
	x.caller = current
	if err := x.granted.allowed(current); err != nil {
		return err
	}
	return x.grantedMore.allowed(current)
}

// requireAccount requires that the caller has a key with the scope for the account. It allows
// everything on a local instance.
func (x *exchange) requireAccount(scope access.Scope, account string) error {
	switch {
	case x.local:
		return nil
	case x.caller == nil:
		return errNoCredential
	default:
		return x.grant(scope, account)
	}
}

// owner returns the quota group charged for this caller's writes, or "".
func (x *exchange) owner() string {
	if x.caller == nil {
		return ""
	}
	return x.caller.Group()
}

// callerScope returns the part of an idempotency key's scope that identifies the caller.
func (x *exchange) callerScope() string {
	if x.caller == nil {
		return ""
	}
	return " by key " + x.caller.ID()
}
