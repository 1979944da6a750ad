package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"sluice/metastore"
)

// AuthenticatorOptions are the settings of an Authenticator. The zero value works.
type AuthenticatorOptions struct {
	// Poll is the interval at which Run queries whether keys have changed. Default
	// 1 s.
	Poll time.Duration
	// Size is the number of keys that are cached. Default 10,000.
	Size int
}

// maxTrust is for how long cached keys are used after the store last reported that no key
// has changed.
const maxTrust = 10 * time.Second

// KeyStore holds keys, and the clock by which they expire.
type KeyStore interface {
	metastore.Keys
	metastore.Clock
}

// Authenticator resolves credentials to the holders of their keys. Its methods may be called
// concurrently.
//
// It caches keys, without their secrets. While Run runs, a key that was created or revoked
// through another handle of the store takes effect after Poll, usually. If the store cannot
// be reached, cached keys are used for 10 s more; then Authenticate returns the errors of the
// store. Unless Run runs, every call of Authenticate queries the store.
type Authenticator struct {
	store    KeyStore
	opt      AuthenticatorOptions
	cache    *otter.Cache[string, entry]
	view     atomic.Pointer[view]
	rechecks lookups
}

// view is the result of the last poll. A cached key is used only in the generation in which
// the query for it began, so that a key that was read before a change and cached after it is
// never used.
type view struct {
	generation int64     // counts the changes
	version    int64     // of the keys
	polled     time.Time // when the last successful poll began; zero: there was none
}

// entry is a cached key.
type entry struct {
	caller     *Caller
	generation int64
}

// NewAuthenticator returns an Authenticator for the keys of a store.
func NewAuthenticator(store KeyStore, opt AuthenticatorOptions) *Authenticator {
	if opt.Poll == 0 {
		opt.Poll = time.Second
	}
	if opt.Size == 0 {
		opt.Size = 10_000
	}
	a := &Authenticator{
		store:    store,
		opt:      opt,
		cache:    otter.Must(&otter.Options[string, entry]{MaximumSize: opt.Size}),
		rechecks: lookups{running: map[lookupKey]*lookup{}},
	}
	a.view.Store(&view{})
	return a
}

// Authenticate returns the holder of the key of a credential. It returns ErrUnknownKey if there
// is no such key or it is no longer valid; any other error means that the store could not be
// queried.
func (a *Authenticator) Authenticate(ctx context.Context, credential string) (*Caller, error) {
	id, secret, ok := parseCredential(credential)
	if !ok {
		return nil, ErrUnknownKey
	}
	caller, err := a.find(ctx, id)
	if err != nil {
		return nil, err
	}
	var want [sha256.Size]byte // compared for an unknown key, so that it takes as long to refuse
	if caller != nil {
		want = caller.key.Hash
	}
	hash := sha256.Sum256([]byte(secret))
	same := subtle.ConstantTimeCompare(hash[:], want[:]) == 1
	if caller == nil || !same || !caller.valid(a.store.Now()) {
		return nil, ErrUnknownKey
	}
	return caller, nil
}

// Cached reports whether Authenticate would return without querying the store: the key is
// cached, or the credential is malformed.
func (a *Authenticator) Cached(credential string) bool {
	id, _, ok := parseCredential(credential)
	if !ok {
		return true
	}
	return a.cached(id, a.view.Load()) != nil
}

// Recheck returns the caller as they are now. A request that takes long calls it before it takes
// effect. It returns ErrUnknownKey if the key has expired or was revoked; any other error means that
// the store could not be queried. A cached key costs no query, and after a change of keys one query
// serves all concurrent calls for a key.
func (a *Authenticator) Recheck(ctx context.Context, c *Caller) (*Caller, error) {
	seen := a.view.Load()
	current := a.cached(c.ID(), seen)
	if current == nil {
		var err error
		current, err = a.rechecks.do(ctx, lookupKey{c.ID(), seen.generation}, func(ctx context.Context) (*Caller, error) {
			return a.find(ctx, c.ID())
		})
		if err != nil {
			return nil, err
		}
	}
	if current == nil || !current.valid(a.store.Now()) {
		return nil, ErrUnknownKey
	}
	return current, nil
}

// cached returns the holder of a key in the cache, nil if there is none that may be used.
func (a *Authenticator) cached(id string, seen *view) *Caller {
	if e, ok := a.cache.GetIfPresent(id); ok && e.generation == seen.generation && a.trusts(seen) {
		return e.caller
	}
	return nil
}

// find returns the holder of the key with this id, valid or not; nil if there is none.
func (a *Authenticator) find(ctx context.Context, id string) (*Caller, error) {
	seen := a.view.Load()
	if caller := a.cached(id, seen); caller != nil {
		return caller, nil
	}
	key, err := a.store.Key(ctx, id)
	if errors.Is(err, metastore.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up a key: %w", err)
	}
	caller := newCaller(key)
	// key.ID instead of id, which is a substring of the credential and would keep the secret in memory.
	a.cache.Set(key.ID, entry{caller: caller, generation: seen.generation})
	return caller, nil
}

func (a *Authenticator) trusts(v *view) bool {
	return !v.polled.IsZero() && time.Since(v.polled) <= maxTrust
}

// Run queries the store every Poll whether keys have changed, and if so empties the cache, until
// ctx ends. It reports failures to report. It must not be called concurrently.
func (a *Authenticator) Run(ctx context.Context, report func(error)) {
	tick := time.NewTicker(a.opt.Poll)
	defer tick.Stop()
	for {
		if err := a.poll(ctx); err != nil && ctx.Err() == nil {
			report(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// poll queries once, with maxTrust as the timeout, after which the last result is no longer used.
func (a *Authenticator) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxTrust)
	defer cancel()
	start := time.Now()
	version, err := a.store.KeysVersion(ctx)
	if err != nil {
		return fmt.Errorf("checking whether keys have changed: %w", err)
	}
	last := a.view.Load()
	next := view{generation: last.generation, version: version, polled: start}
	changed := version != last.version || last.polled.IsZero() // keys cached before the first poll may have changed since
	if changed {
		next.generation++
	}
	a.view.Store(&next)
	if changed {
		a.cache.InvalidateAll()
	}
	return nil
}
