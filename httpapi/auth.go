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

// place is where a request needs a permission: the account, and the blob's name or the list's
// prefix, as access.Caller.Allows has them.
type place struct{ account, name string }

type placeFunc func(*call) (place, error)

// public allows everybody. A credential is optional but must be valid if there is one.
func public() rule {
	return func(x *call) error { return x.BadCredential }
}

// mayRead requires what the blob's place does. Like all rules it checks the syntax before the
// credential. Where reads are paid, a key that may read the blob reads without paying.
func (s *Server) mayRead(x *call) error {
	at, err := blobInPath(x)
	if err != nil {
		return err
	}
	rules, err := s.places.Account(x.Request.Context(), at.account)
	if err != nil {
		return err
	}
	x.place = rules.At(at.name)
	if x.place.Reads == access.ReadsPaid {
		x.readsFree = x.HoldsRead(at.account, at.name)
		err = x.BadCredential
	} else {
		err = x.PermitRead(x.place.Reads, at.account, at.name)
	}
	if err != nil {
		return err
	}
	return x.place.Unblocked()
}

// mayList requires what the places at and below the listing's prefix do; for a list of versions, a
// key with access.ScopeRead for the prefix.
func (s *Server) mayList(versions bool) rule {
	return func(x *call) error { return s.mayListAt(x, listInPath, versions) }
}

// mayListAt is mayList for the place that find returns.
func (s *Server) mayListAt(x *call, find placeFunc, versions bool) error {
	at, err := find(x)
	if err != nil {
		return err
	}
	if x.rules, err = s.places.Account(x.Request.Context(), at.account); err != nil {
		return err
	}
	reads := x.rules.Lists(at.name)
	if versions {
		reads = access.ReadsKey
	}
	return x.PermitRead(reads, at.account, at.name)
}

// requireKey requires a key with the scope for the place that the request names. find must not
// access any store.
func requireKey(scope access.Scope, find placeFunc) rule {
	return func(x *call) error {
		at, err := find(x)
		if err != nil {
			return err
		}
		if err := x.RequireScope(scope); err != nil {
			return err
		}
		return x.Grant(scope, at.account, at.name)
	}
}

// requireKeyFor requires a key with the scope for a stored object's place. It looks up the object
// only for keys with the scope, so other callers cannot probe for its existence.
func requireKeyFor(scope access.Scope, find placeFunc) rule {
	return func(x *call) error {
		if err := x.RequireScope(scope); err != nil {
			return err
		}
		at, err := find(x)
		if err != nil {
			return err
		}
		return x.Grant(scope, at.account, at.name)
	}
}

// requireScope requires a key with the scope. The handler must call Require when it has
// parsed the body.
func requireScope(scope access.Scope) rule {
	return func(x *call) error { return x.RequireScope(scope) }
}

// requireScopeAt is requireScope for a request that also names an account in its path.
func requireScopeAt(scope access.Scope, find placeFunc) rule {
	return func(x *call) error {
		if _, err := find(x); err != nil {
			return err
		}
		return x.RequireScope(scope)
	}
}

// everyPlace is for a request that concerns all accounts: only a key for all accounts and
// names is valid for it.
func everyPlace(*call) (place, error) { return place{}, nil }

func blobInPath(x *call) (at place, err error) {
	at.account, at.name, err = x.blobTarget()
	return at, err
}

// listInPath returns the account in the path, and the list's prefix.
func listInPath(x *call) (at place, err error) {
	if at.account, err = blob.ParseAccount(x.params.Get("account")); err != nil {
		return at, err
	}
	q, err := readQuery(x.Request)
	return place{at.account, q.text("prefix")}, err
}

// listInQuery is listInPath for an account in the query.
func listInQuery(x *call) (at place, err error) {
	q, err := readQuery(x.Request)
	if err != nil {
		return at, err
	}
	at.account, err = blob.ParseAccount(q.text("account"))
	return place{at.account, q.text("prefix")}, err
}

// placeOfUpload returns where an upload makes a blob. It also requires that a key which may only
// create there belongs to the group that began the upload.
func (s *Server) placeOfUpload(x *call) (place, error) { return s.uploadAt(x, false) }

// placeOfPart requires that the key belongs to the group that began the upload, which is charged
// for the part.
func (s *Server) placeOfPart(x *call) (place, error) { return s.uploadAt(x, true) }

func (s *Server) uploadAt(x *call, charged bool) (place, error) {
	u, err := s.blobs.FindUpload(x.Request.Context(), x.params.Get("uploadId"))
	if err != nil {
		return place{}, exchange.UploadError(err)
	}
	onlyOwn := charged && u.Owner != "" || !x.Caller.Can(access.ScopeWrite, u.Account, u.Name)
	if onlyOwn && u.Owner != x.Owner() && x.Caller.Can(access.ScopeCreate, u.Account, u.Name) {
		return place{}, exchange.ErrOtherGroup
	}
	return place{u.Account, u.Name}, nil
}

// placeOfChannel returns a channel's sender, or "", which only a key for all accounts is for, if it
// is not bound to a sender yet.
func (s *Server) placeOfChannel(x *call) (at place, err error) {
	c, err := s.channels.Get(x.Request.Context(), x.params.Get("channelId"))
	if err != nil || c.Sender == "" {
		return at, channelError(err)
	}
	at.account, err = blob.ParseAccount(c.Sender)
	return at, err
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
