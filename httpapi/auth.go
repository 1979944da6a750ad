package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"sluice/access"
	"sluice/blob"
	"sluice/database"
	"sluice/wire"
)

// accountFunc returns a request's account.
type accountFunc func(*exchange) (string, error)

// public allows everybody. A credential is optional but must be valid if there is one.
func public() rule {
	return func(x *exchange) error { return x.badCredential }
}

// publicFor is public for a request that names an account. Like all rules for such requests, it
// checks the account's syntax before the credential.
func publicFor(account accountFunc) rule {
	return func(x *exchange) error {
		if _, err := account(x); err != nil {
			return err
		}
		return x.badCredential
	}
}

// paid is publicFor, and lets a key that may read the account read without paying.
func paid(account accountFunc) rule {
	return func(x *exchange) error {
		name, err := account(x)
		if err != nil {
			return err
		}
		x.readsFree = x.caller != nil && x.caller.Allows(access.ScopeRead, name) == nil
		return x.badCredential
	}
}

// requireKey requires a key with the scope for the account that the request names. account must not
// access any store.
func requireKey(scope access.Scope, account accountFunc) rule {
	return func(x *exchange) error {
		name, err := account(x)
		if err != nil {
			return err
		}
		if err := x.requireScope(scope); err != nil {
			return err
		}
		return x.grant(scope, name)
	}
}

// requireKeyFor requires a key with the scope for the account of a stored object. It looks up the
// object only for keys with the scope, so other callers cannot probe for its existence.
func requireKeyFor(scope access.Scope, find accountFunc) rule {
	return func(x *exchange) error {
		if err := x.requireScope(scope); err != nil {
			return err
		}
		name, err := find(x)
		if err != nil {
			return err
		}
		return x.grant(scope, name)
	}
}

// requireScope requires a key with the scope. The handler must call requireAccount when it has
// parsed the body.
func requireScope(scope access.Scope) rule {
	return func(x *exchange) error { return x.requireScope(scope) }
}

// requireScopeAt is requireScope for a request that also names an account in its path.
func requireScopeAt(scope access.Scope, account accountFunc) rule {
	return func(x *exchange) error {
		if _, err := account(x); err != nil {
			return err
		}
		return x.requireScope(scope)
	}
}

// everyAccount is the account in a request that concerns all accounts: only a key for all accounts
// is valid for it.
func everyAccount(*exchange) (string, error) { return "", nil }

func accountInPath(x *exchange) (string, error) {
	return blob.ParseAccount(x.params.Get("account"))
}

// blobInPath returns the account in a blob's path, and checks its name.
func blobInPath(x *exchange) (string, error) {
	account, _, err := x.blobTarget()
	return account, err
}

func accountInQuery(x *exchange) (string, error) {
	q, err := readQuery(x.r)
	if err != nil {
		return "", err
	}
	return blob.ParseAccount(q.text("account"))
}

func (s *Server) accountOfUpload(x *exchange) (string, error) {
	u, err := s.blobs.FindUpload(x.r.Context(), x.params.Get("uploadId"))
	return u.Account, uploadError(err)
}

// accountOfPart also requires that the key belongs to the group that began the upload, which is
// charged for the part.
func (s *Server) accountOfPart(x *exchange) (string, error) {
	u, err := s.blobs.FindUpload(x.r.Context(), x.params.Get("uploadId"))
	if err == nil && u.Owner != "" && u.Owner != x.owner() && x.caller.Allows(access.ScopeWrite, u.Account) == nil {
		return "", errOtherGroup
	}
	return u.Account, uploadError(err)
}

// accountOfChannel returns the sender of a channel, or "", which every key is for, if it is not
// bound to a sender yet.
func (s *Server) accountOfChannel(x *exchange) (string, error) {
	c, err := s.channels.Get(x.r.Context(), x.params.Get("channelId"))
	if err != nil || c.Sender == "" {
		return "", channelError(err)
	}
	return blob.ParseAccount(c.Sender)
}

// identify authenticates the caller, and takes a slot for it. An invalid credential is stored for
// the rule of the route, because a malformed request is reported first. A request counts as one
// without a key until its key is known, and a key that was known remains so while it is looked up
// again.
func (s *Server) identify(ctx context.Context, x *exchange) error {
	if s.keys == nil { // clients that are configured for the hosted network work unchanged
		return x.slot.take(s.slots)
	}
	credential, err := parseCredential(x.r.Header)
	if err != nil || credential == "" {
		x.badCredential = err
		return x.slot.takeAnonymous(s.slots)
	}
	caller, current := s.keys.Remembered(credential)
	switch {
	case current && caller != nil:
		x.caller = caller
		return x.slot.take(s.slots)
	case current:
		x.badCredential = access.ErrUnknownKey
		return x.slot.takeAnonymous(s.slots)
	case caller != nil:
		if err := x.slot.take(s.slots); err != nil {
			return err
		}
		return s.authenticate(ctx, x, credential)
	default:
		return s.lookUp(ctx, x, credential)
	}
}

// lookUp authenticates a caller with a key that is not known. Lookups of such keys are bounded, and
// have limits of their own for each client address: lookups do not consume the limits for its
// requests without a key, and the other way around. If there is no slot in which it could wait for
// them, it does not wait.
func (s *Server) lookUp(ctx context.Context, x *exchange, credential string) error {
	lookups := s.lookupLimiter.OfAddress(x.client)
	defer lookups.Release()
	enter := lookups.Enter
	if x.slot.takeAnonymous(s.slots) != nil {
		enter = func(context.Context) (func(), error) { return lookups.EnterNow() }
	}
	leave, err := enter(ctx)
	if err != nil {
		setRateLimitHeaders(x, lookups)
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
	return s.authenticate(ctx, x, credential)
}

// authenticate authenticates the caller with this key. Its slot, which must have been taken,
// becomes one of a caller with a key or without.
func (s *Server) authenticate(ctx context.Context, x *exchange, credential string) (err error) {
	x.caller, err = s.keys.Authenticate(ctx, credential)
	switch {
	case err == nil:
		x.slot.identify()
		return nil
	case errors.Is(err, access.ErrUnknownKey):
		x.badCredential = err
		return x.slot.makeAnonymous()
	default:
		return err
	}
}

// parseCredential returns a request's credential (RFC 6750, section 2.1, or the header X-Api-Key),
// or "" if there is none.
func parseCredential(h http.Header) (string, error) {
	authorizations, keys := h.Values("Authorization"), h.Values(wire.HeaderAPIKey)
	switch {
	case len(authorizations)+len(keys) == 0:
		return "", nil
	case len(authorizations)+len(keys) > 1:
		return "", fmt.Errorf("%w: there is more than one", errBadCredential)
	case len(keys) == 1:
		return nonEmpty(keys[0])
	}
	scheme, key, _ := strings.Cut(authorizations[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", fmt.Errorf("%w: the scheme must be Bearer", errBadCredential)
	}
	return nonEmpty(strings.Trim(key, " "))
}

func nonEmpty(key string) (string, error) {
	if key == "" {
		return "", fmt.Errorf("%w: it is empty", errBadCredential)
	}
	return key, nil
}

// uploadError and channelError report what database.ErrNotFound refers to.
func uploadError(err error) error {
	if errors.Is(err, database.ErrNotFound) {
		return fmt.Errorf("%w: %w", errNoUpload, err)
	}
	return err
}

func channelError(err error) error {
	if errors.Is(err, database.ErrNotFound) {
		return fmt.Errorf("%w: %w", errNoChannel, err)
	}
	return err
}
