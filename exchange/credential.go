package exchange

import (
	"context"
	"errors"

	"sluice/access"
)

// Credential proves that a request is by a key's holder. There are two kinds: the key itself, and a
// signature that was made with its S3 secret.
type Credential interface {
	// Remembered is access.Authenticator.Remembered for the credential. It makes no query.
	Remembered(keys *access.Authenticator) (caller *access.Caller, current bool)
	// Authenticate returns the key's holder. It returns access.ErrUnknownKey, or an error that
	// wraps ErrBadCredential, if the credential is not valid; any other error means that the store
	// could not be queried.
	Authenticate(ctx context.Context, keys *access.Authenticator) (*access.Caller, error)
}

// identify authenticates the caller, and takes a slot for it. An invalid credential is stored for
// the route's rule, because a malformed request is reported first. A request counts as one without
// a key until its key is known, and a key that was known remains so while it is looked up again.
func (x *Exchange) identify(credential Credential, bad error) error {
	s := x.service
	if s.keys == nil { // clients that are configured for the hosted network work unchanged
		return x.slot.take(s.slots)
	}
	if bad != nil || credential == nil {
		x.BadCredential = bad
		return x.slot.takeAnonymous(s.slots)
	}
	caller, current := credential.Remembered(s.keys)
	switch {
	case current && caller != nil:
		x.Caller = caller
		return x.slot.take(s.slots)
	case current:
		x.BadCredential = access.ErrUnknownKey
		return x.slot.takeAnonymous(s.slots)
	case caller != nil:
		if err := x.slot.take(s.slots); err != nil {
			return err
		}
		return x.authenticate(credential)
	default:
		return x.lookUp(credential)
	}
}

// lookUp authenticates a caller with a key that is not known. Lookups of such keys are bounded, and
// have limits of their own for each client address: lookups do not consume the limits for its
// requests without a key, and the other way around. If there is no slot in which it could wait for
// them, it does not wait.
func (x *Exchange) lookUp(credential Credential) error {
	s := x.service
	lookups := s.lookupLimiter.OfAddress(x.Client)
	defer lookups.Release()
	enter := lookups.Enter
	if x.slot.takeAnonymous(s.slots) != nil {
		enter = func(context.Context) (func(), error) { return lookups.EnterNow() }
	}
	leave, err := enter(x.Request.Context())
	if err != nil {
		setRateLimitFields(x, lookups)
		return err
	}
	defer leave()
	done, err := s.slots.beginLookup()
	if err != nil {
		return err
	}
	defer done()
	if x.slot.of == nil {
		if err := x.slot.take(s.slots); err != nil {
			return err
		}
	}
	return x.authenticate(credential)
}

// authenticate authenticates the caller with this key. Its slot, which must have been taken,
// becomes one of a caller with a key or without.
func (x *Exchange) authenticate(credential Credential) (err error) {
	x.Caller, err = credential.Authenticate(x.Request.Context(), x.service.keys)
	switch {
	case err == nil:
		x.slot.identify()
		return nil
	case errors.Is(err, access.ErrUnknownKey), errors.Is(err, ErrBadCredential):
		x.BadCredential = err
		return x.slot.makeAnonymous()
	default:
		return err
	}
}
