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
	"sluice/exchange"
	"sluice/wire"
)

type accountFunc func(*call) (string, error)

// public allows everybody. A credential is optional but must be valid if there is one.
func public() rule {
	return func(x *call) error { return x.BadCredential }
}

// publicFor is public for a request that names an account. Like all rules for such requests, it
// checks the account's syntax before the credential.
func publicFor(account accountFunc) rule {
	return func(x *call) error {
		if _, err := account(x); err != nil {
			return err
		}
		return x.BadCredential
	}
}

// paid is publicFor, and lets a key that may read the account read without paying.
func paid(account accountFunc) rule {
	return func(x *call) error {
		name, err := account(x)
		if err != nil {
			return err
		}
		x.readsFree = x.Caller != nil && x.Caller.Allows(access.ScopeRead, name) == nil
		return x.BadCredential
	}
}

// requireKey requires a key with the scope for the account that the request names. account must not
// access any store.
func requireKey(scope access.Scope, account accountFunc) rule {
	return func(x *call) error {
		name, err := account(x)
		if err != nil {
			return err
		}
		if err := x.RequireScope(scope); err != nil {
			return err
		}
		return x.Grant(scope, name)
	}
}

// requireKeyFor requires a key with the scope for a stored object's account. It looks up the object
// only for keys with the scope, so other callers cannot probe for its existence.
func requireKeyFor(scope access.Scope, find accountFunc) rule {
	return func(x *call) error {
		if err := x.RequireScope(scope); err != nil {
			return err
		}
		name, err := find(x)
		if err != nil {
			return err
		}
		return x.Grant(scope, name)
	}
}

// requireScope requires a key with the scope. The handler must call RequireAccount when it has
// parsed the body.
func requireScope(scope access.Scope) rule {
	return func(x *call) error { return x.RequireScope(scope) }
}

// requireScopeAt is requireScope for a request that also names an account in its path.
func requireScopeAt(scope access.Scope, account accountFunc) rule {
	return func(x *call) error {
		if _, err := account(x); err != nil {
			return err
		}
		return x.RequireScope(scope)
	}
}

// everyAccount is the account in a request that concerns all accounts: only a key for all accounts
// is valid for it.
func everyAccount(*call) (string, error) { return "", nil }

func accountInPath(x *call) (string, error) {
	return blob.ParseAccount(x.params.Get("account"))
}

// blobInPath returns the account in a blob's path, and checks its name.
func blobInPath(x *call) (string, error) {
	account, _, err := x.blobTarget()
	return account, err
}

func accountInQuery(x *call) (string, error) {
	q, err := readQuery(x.Request)
	if err != nil {
		return "", err
	}
	return blob.ParseAccount(q.text("account"))
}

// accountOfUpload also requires that a key which may only create belongs to the group that began
// the upload.
func (s *Server) accountOfUpload(x *call) (string, error) {
	u, err := s.blobs.FindUpload(x.Request.Context(), x.params.Get("uploadId"))
	if err == nil && u.Owner != x.Owner() && !x.Caller.Has(access.ScopeWrite) && x.Caller.Allows(access.ScopeCreate, u.Account) == nil {
		return "", exchange.ErrOtherGroup
	}
	return u.Account, exchange.UploadError(err)
}

// accountOfPart requires that the key belongs to the group that began the upload, which is charged
// for the part.
func (s *Server) accountOfPart(x *call) (string, error) {
	u, err := s.blobs.FindUpload(x.Request.Context(), x.params.Get("uploadId"))
	if err == nil && u.Owner != x.Owner() && (u.Owner != "" || !x.Caller.Has(access.ScopeWrite)) && x.Caller.Allows(access.ScopeCreate, u.Account) == nil {
		return "", exchange.ErrOtherGroup
	}
	return u.Account, exchange.UploadError(err)
}

// accountOfChannel returns a channel's sender, or "", which every key is for, if it is not bound to
// a sender yet.
func (s *Server) accountOfChannel(x *call) (string, error) {
	c, err := s.channels.Get(x.Request.Context(), x.params.Get("channelId"))
	if err != nil || c.Sender == "" {
		return "", channelError(err)
	}
	return blob.ParseAccount(c.Sender)
}

// bearer is a key as its holder sends it, which is its own proof.
type bearer string

// Remembered implements exchange.Credential.
func (b bearer) Remembered(keys *access.Authenticator) (*access.Caller, bool) {
	return keys.Remembered(string(b))
}

// Authenticate implements exchange.Credential.
func (b bearer) Authenticate(ctx context.Context, keys *access.Authenticator) (*access.Caller, error) {
	return keys.Authenticate(ctx, string(b))
}

// parseCredential returns a request's credential (RFC 6750, section 2.1, or the header X-Api-Key),
// or "" if there is none.
func parseCredential(h http.Header) (string, error) {
	authorizations, keys := h.Values("Authorization"), h.Values(wire.HeaderAPIKey)
	switch {
	case len(authorizations)+len(keys) == 0:
		return "", nil
	case len(authorizations)+len(keys) > 1:
		return "", fmt.Errorf("%w: there is more than one", exchange.ErrBadCredential)
	case len(keys) == 1:
		return nonEmpty(keys[0])
	}
	scheme, key, _ := strings.Cut(authorizations[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", fmt.Errorf("%w: the scheme must be Bearer", exchange.ErrBadCredential)
	}
	return nonEmpty(strings.Trim(key, " "))
}

func nonEmpty(key string) (string, error) {
	if key == "" {
		return "", fmt.Errorf("%w: it is empty", exchange.ErrBadCredential)
	}
	return key, nil
}

// channelError adds errNoChannel to database.ErrNotFound.
func channelError(err error) error {
	if errors.Is(err, database.ErrNotFound) {
		return fmt.Errorf("%w: %w", errNoChannel, err)
	}
	return err
}
