package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"sluice/access"
	"sluice/blob"
	"sluice/httpapi/internal/router"
	"sluice/wire"
)

// rule says who may use a route. The zero rule lets nobody, and New refuses a
// table that has one. On a local instance everything is open, whatever a rule
// says.
type rule struct {
	who   audience
	scope access.Scope // of the key, for keyHolders
	// named gives the account that the request itself names. It looks at no
	// state, so that a malformed request is told before anything is asked of
	// its sender.
	named accountFunc
	// found gives the account of what the request names. It is asked for
	// those only whose key has the scope.
	found accountFunc
	// later: the handler asks, when it has read the body.
	later bool
}

// accountFunc gives the account that a key must be for.
type accountFunc func(s *Server, x *exchange, p router.Params) (string, error)

// audience is the kind of people that a rule lets in.
type audience int

const (
	nobody     audience = iota
	probes              // everybody, and no credential is looked at, no limit kept
	everybody           // with or without a key; but a key that is sent must be one
	payers              // the same; a key for the account reads without paying
	keyHolders          // those whose key has the scope and is for the account
)

var (
	openRule  = rule{who: everybody}
	probeRule = rule{who: probes}
)

// readRules gives the rules of reading a blob and of listing.
func (s *Server) readRules() (read, list rule) {
	list = rule{who: keyHolders, scope: access.ScopeRead, named: accountInPath}
	switch s.Reads {
	case ReadsPublic:
		return rule{who: everybody, named: blobInPath}, rule{who: everybody, named: accountInPath}
	case ReadsKey:
		return rule{who: keyHolders, scope: access.ScopeRead, named: blobInPath}, list
	default:
		return rule{who: payers, named: blobInPath}, list
	}
}

func keyRule(scope access.Scope) rule { return rule{who: keyHolders, scope: scope} }

func (r rule) naming(f accountFunc) rule  { r.named = f; return r }
func (r rule) finding(f accountFunc) rule { r.found = f; return r }
func (r rule) askedLater() rule           { r.later = true; return r }

// check reports what is wrong with a rule.
func (r rule) check() error {
	ways := 0
	for _, has := range []bool{r.named != nil, r.found != nil, r.later} {
		if has {
			ways++
		}
	}
	switch {
	case r.who == nobody:
		return fmt.Errorf("no rule says who may use it")
	case r.who == keyHolders && (r.scope == "" || ways != 1), r.who == payers && r.named == nil:
		return fmt.Errorf("its rule does not say for what a key is asked")
	}
	return nil
}

// authorize lets a request through that its route's rule allows.
func (s *Server) authorize(x *exchange, rule rule, p router.Params) error {
	if s.Keys == nil || rule.who == probes {
		return nil
	}
	var account string
	var err error
	if rule.named != nil {
		if account, err = rule.named(s, x, p); err != nil {
			return err
		}
	}
	if x.badCredential != nil {
		return x.badCredential
	}
	switch rule.who {
	case everybody:
		return nil
	case payers:
		x.readsFree = x.caller != nil && x.caller.Allows(access.ScopeRead, account) == nil
		return nil
	case keyHolders:
		return s.askKey(x, rule, account, p)
	default:
		return errNoCredential
	}
}

// askKey asks for a key with the rule's scope and account.
func (s *Server) askKey(x *exchange, rule rule, account string, p router.Params) error {
	if x.caller == nil {
		return errNoCredential
	}
	if !x.caller.Has(rule.scope) {
		return fmt.Errorf("%w: this needs %q", access.ErrScope, rule.scope)
	}
	if rule.later {
		return nil
	}
	if rule.found != nil {
		var err error
		if account, err = rule.found(s, x, p); err != nil {
			return err
		}
	}
	return x.caller.Allows(rule.scope, account)
}

// allows asks for an account that only the handler knows.
func (x *exchange) allows(scope access.Scope, account string) error {
	if x.s.Keys == nil {
		return nil
	}
	if x.caller == nil {
		return errNoCredential
	}
	return x.caller.Allows(scope, account)
}

// owner is under whose name what this caller writes is counted.
func (x *exchange) owner() string {
	if x.caller == nil {
		return ""
	}
	return x.caller.Group()
}

func accountInPath(_ *Server, _ *exchange, p router.Params) (string, error) {
	return blob.ParseAccount(p.Get("account"))
}

func blobInPath(_ *Server, _ *exchange, p router.Params) (string, error) {
	account, _, err := blobTarget(p)
	return account, err
}

func accountInQuery(_ *Server, x *exchange, _ router.Params) (string, error) {
	q, err := readQuery(x.r)
	if err != nil {
		return "", err
	}
	return blob.ParseAccount(q.text("account"))
}

func accountOfUpload(s *Server, x *exchange, p router.Params) (string, error) {
	u, err := s.Blobs.FindUpload(x.r.Context(), p.Get("uploadId"))
	return u.Account, uploadError(err)
}

// accountOfPart asks also that the part comes from the group of keys that began
// the upload, since it is counted there.
func accountOfPart(s *Server, x *exchange, p router.Params) (string, error) {
	u, err := s.Blobs.FindUpload(x.r.Context(), p.Get("uploadId"))
	if err == nil && u.Owner != "" && u.Owner != x.owner() && x.caller.Allows(access.ScopeWrite, u.Account) == nil {
		return "", errOtherGroup
	}
	return u.Account, uploadError(err)
}

// accountOfChannel is the address that pays. A channel that nobody is bound to
// yet is for keys of all accounts.
func accountOfChannel(s *Server, x *exchange, p router.Params) (string, error) {
	c, err := s.Channels.Get(x.r.Context(), p.Get("channelId"))
	if err != nil || c.Sender == "" {
		return "", channelError(err)
	}
	return blob.ParseAccount(c.Sender)
}

// identify finds out who sends a request. A credential that no key has is kept
// for authorize: what is malformed in the request is reported first. A key that
// is not remembered is looked up within limits of the address that it comes
// from, which are apart from those of its requests without a key: neither use
// takes from the other, and nobody can have the store asked without end.
func (s *Server) identify(ctx context.Context, x *exchange, place *place) error {
	if s.Keys == nil {
		return nil // a client that is set up for the hosted network works unchanged
	}
	credential, err := credentialOf(x.r.Header)
	if err == nil && credential != "" {
		x.caller, err = s.authenticate(ctx, x, credential)
	}
	if isBadCredential(err) {
		x.badCredential, err = err, nil
	}
	if err != nil || x.caller != nil {
		return err
	}
	return place.asAnonymous()
}

// authenticate returns the caller whose key this is.
func (s *Server) authenticate(ctx context.Context, x *exchange, credential string) (*access.Caller, error) {
	if !s.Keys.Cached(credential) {
		lookups := s.lookups.OfAddress(x.client)
		defer lookups.Release()
		leave, err := lookups.Enter(ctx)
		if err != nil {
			tellLimits(x.Header(), lookups)
			return nil, err
		}
		defer leave()
		// What is looked up may be no key: it must not hold the places of those
		// that are.
		defer s.looking.Add(-1)
		if most := max(1, s.MaxRequests/8); s.looking.Add(1) > most {
			return nil, fmt.Errorf("%w: %d keys are being looked up", errTooBusy, most)
		}
	}
	return s.Keys.Authenticate(ctx, credential)
}

// credentialOf gives the credential of a request (RFC 6750, section 2.1, or our
// own header), empty when there is none.
func credentialOf(h http.Header) (string, error) {
	authorizations, keys := h.Values("Authorization"), h.Values(wire.HeaderAPIKey)
	switch {
	case len(authorizations)+len(keys) == 0:
		return "", nil
	case len(authorizations)+len(keys) > 1:
		return "", fmt.Errorf("%w: one is enough", errBadCredential)
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

// callerScope is what an idempotency key belongs to beside its operation.
func callerScope(x *exchange) string {
	if x.caller == nil {
		return ""
	}
	return " by key " + x.caller.ID()
}

// allowsSender asks for the account that pays over a channel. A local instance,
// which alone opens channels without one, asks for nothing.
func (x *exchange) allowsSender(sender string) error {
	if x.s.Keys == nil {
		return nil
	}
	account, err := blob.ParseAccount(sender)
	if err != nil {
		return err
	}
	return x.allows(access.ScopeChannels, account)
}
