package httpapi

import (
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

// requireAccount requires that the caller has a key with the scope for the account. It allows
// everything on a local instance.
func (x *exchange) requireAccount(scope access.Scope, account string) error {
	switch {
	case x.local:
		return nil
	case x.caller == nil:
		return errNoCredential
	default:
		return x.caller.Allows(scope, account)
	}
}

// owner returns the quota group charged for this caller's writes, or "".
func (x *exchange) owner() string {
	if x.caller == nil {
		return ""
	}
	return x.caller.Group()
}

// callerScope returns the part of the scope of an idempotency key that identifies the caller.
func (x *exchange) callerScope() string {
	if x.caller == nil {
		return ""
	}
	return " by key " + x.caller.ID()
}
