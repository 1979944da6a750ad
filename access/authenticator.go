package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"sluice/access/keys"
	"sluice/access/sealed"
	"sluice/database"
	"sluice/internal/task"
)

// AuthenticatorOptions are an Authenticator's settings. The zero value works.
type AuthenticatorOptions struct {
	// Poll is the interval at which Run queries whether keys have changed. Default
	// 1 s.
	Poll time.Duration
	// Size is the number of keys that are cached. Default 10,000.
	Size int
	// S3 opens the keys' S3 secrets. nil: no key has one.
	S3 *sealed.Box
	// Unopened is called with a key's id when S3 cannot open its secret, which is once for each
	// query for the key. nil: it is not called.
	Unopened func(id string, err error)
}

// maxTrust is for how long cached keys are used after the store last reported that no key
// has changed.
const maxTrust = 10 * time.Second

// KeyStore holds keys, and the clock by which they expire.
type KeyStore interface {
	keys.Store
	database.Clock
}

// Authenticator resolves credentials to the holders of their keys. Its methods may be called
// concurrently.
//
// It caches keys with their S3 secrets, but without their credentials' secrets: at most
// AuthenticatorOptions.Size of them. While Run runs, a key that was created or revoked through
// another handle of the store takes effect after Poll, usually. If the store cannot be reached,
// cached keys are used for 10 s more; then Authenticate returns the store's errors. Unless Run
// runs, every call of Authenticate queries the store.
type Authenticator struct {
	store KeyStore
	opt   AuthenticatorOptions
	cache *otter.Cache[string, entry]
	view  atomic.Pointer[view]
	mu    struct {
		sync.Mutex
		renewals map[string]*renewal // by a key's id
	}
}

// view is the last poll's result. A cached key is used only in the generation in which its query
// began, so that a key that was read before a change and cached after it is never used.
type view struct {
	generation int64     // counts the changes
	version    int64     // the keys'
	polled     time.Time // when the last successful poll began; zero: there was none
}

// entry is a cached key. After a change of keys it remains, so that Remembered knows it until it is
// looked up again.
type entry struct {
	caller     *Caller
	generation int64
}

// NewAuthenticator returns an Authenticator for a store's keys.
func NewAuthenticator(store KeyStore, opt AuthenticatorOptions) *Authenticator {
	if opt.Poll == 0 {
		opt.Poll = time.Second
	}
	if opt.Size == 0 {
		opt.Size = 10_000
	}
	a := &Authenticator{
		store: store,
		opt:   opt,
		cache: otter.Must(&otter.Options[string, entry]{MaximumSize: opt.Size}),
	}
	a.mu.renewals = map[string]*renewal{}
	a.view.Store(&view{})
	return a
}

// Authenticate returns the holder of the key in a credential. It returns ErrUnknownKey if there is
// no such key or it is no longer valid; any other error means that the store could not be queried.
func (a *Authenticator) Authenticate(ctx context.Context, credential string) (*Caller, error) {
	id, secret, ok := parseCredential(credential)
	if !ok {
		return nil, ErrUnknownKey
	}
	caller, err := a.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if caller = a.check(caller, secret); caller == nil {
		return nil, ErrUnknownKey
	}
	return caller, nil
}

// Remembered returns a credential's cached result, without querying the store: the key's holder as
// the last query showed it, or nil if there was none or it is no longer valid. current reports
// whether Authenticate returns the same, without querying the store. If it is false, the key may
// have been changed or revoked since, so the caller must not be allowed anything yet.
func (a *Authenticator) Remembered(credential string) (caller *Caller, current bool) {
	id, secret, ok := parseCredential(credential)
	if !ok {
		return nil, true
	}
	e, ok := a.cache.GetIfPresent(id)
	if !ok {
		return nil, false
	}
	return a.check(e.caller, secret), a.current(e, a.view.Load())
}

// check returns caller if this is the secret of its key and the key is valid, and otherwise nil.
// caller may be nil.
func (a *Authenticator) check(caller *Caller, secret string) *Caller {
	var want [sha256.Size]byte // compared for an unknown key, so that it takes as long to refuse
	if caller != nil {
		want = caller.key.Hash
	}
	hash := sha256.Sum256([]byte(secret))
	same := subtle.ConstantTimeCompare(hash[:], want[:]) == 1
	if caller == nil || !same || !caller.valid(a.store.Now()) {
		return nil
	}
	return caller
}

// current reports whether a cached key may be used without querying the store.
func (a *Authenticator) current(e entry, seen *view) bool {
	return e.generation == seen.generation && a.trusts(seen)
}

// Recheck returns the caller as they are now. A request that takes long calls it before it takes
// effect. It returns ErrUnknownKey if the key has expired or was revoked, or has another secret
// than the caller has shown or signed with; any other error means that the store could not be
// queried. A cached key costs no query, and after a change of keys one query serves all concurrent
// calls for a key.
func (a *Authenticator) Recheck(ctx context.Context, c *Caller) (*Caller, error) {
	current, err := a.find(ctx, c.ID())
	if err != nil {
		return nil, err
	}
	if current == nil || !current.valid(a.store.Now()) {
		return nil, ErrUnknownKey
	}
	if !c.signed {
		if c.key.Hash != current.key.Hash {
			return nil, ErrUnknownKey
		}
		return current, nil
	}
	if subtle.ConstantTimeCompare([]byte(current.s3Secret), []byte(c.s3Secret)) == 0 {
		return nil, ErrUnknownKey
	}
	return current.signer, nil
}

// find returns who holds the key with this id, valid or not; nil if there is none. After keys have
// changed, concurrent calls for a cached key query the store once together.
func (a *Authenticator) find(ctx context.Context, id string) (*Caller, error) {
	seen := a.view.Load()
	e, cached := a.cache.GetIfPresent(id)
	switch {
	case cached && a.current(e, seen):
		return e.caller, nil
	case cached && a.trusts(seen):
		return a.renew(ctx, id, seen)
	default:
		return a.query(ctx, id, seen)
	}
}

// query is find in the store. seen must have been loaded before.
func (a *Authenticator) query(ctx context.Context, id string, seen *view) (*Caller, error) {
	key, err := a.store.Key(ctx, id)
	if errors.Is(err, database.ErrNotFound) {
		a.cache.Invalidate(id)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up a key: %w", err)
	}
	caller := newCaller(key, a.open(key))
	// key.ID and not id: as a substring of the credential, id would keep the secret in memory.
	a.cache.Set(key.ID, entry{caller: caller, generation: seen.generation})
	return caller, nil
}

// open returns a key's S3 secret, or "" if it has none or it cannot be opened.
func (a *Authenticator) open(key keys.Key) string {
	if key.S3Secret == nil || a.opt.S3 == nil {
		return ""
	}
	secret, err := a.opt.S3.Open(key.ID, key.S3Secret)
	if err != nil && a.opt.Unopened != nil {
		a.opt.Unopened(key.ID, err)
	}
	return secret
}

// renewal is a query that concurrent calls of find share. It began in its generation, so it knows
// of every change that they know of.
type renewal struct {
	generation int64
	done       chan struct{} // closed when caller and err are set
	caller     *Caller
	err        error
}

// renew is query, and shares the query with concurrent calls.
func (a *Authenticator) renew(ctx context.Context, id string, seen *view) (*Caller, error) {
	a.mu.Lock()
	r := a.mu.renewals[id]
	if r == nil || r.generation != seen.generation {
		r = &renewal{generation: seen.generation, done: make(chan struct{})}
		id := strings.Clone(id) // of the credential
		a.mu.renewals[id] = r
		// The query must not end with the request that happens to be the first.
		go a.runRenewal(context.WithoutCancel(ctx), id, r, seen)
	}
	a.mu.Unlock()
	select {
	case <-r.done:
		return r.caller, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (a *Authenticator) runRenewal(ctx context.Context, id string, r *renewal, seen *view) {
	r.caller, r.err = a.query(ctx, id, seen)
	a.mu.Lock()
	if a.mu.renewals[id] == r {
		delete(a.mu.renewals, id)
	}
	a.mu.Unlock()
	close(r.done)
}

func (a *Authenticator) trusts(v *view) bool {
	return !v.polled.IsZero() && time.Since(v.polled) <= maxTrust
}

// Run queries the store every Poll whether keys have changed, and if so looks up each key again
// before it is used, until ctx ends. It reports failures to report. It must not be called
// concurrently.
func (a *Authenticator) Run(ctx context.Context, report func(error)) {
	pollEvery(ctx, a.opt.Poll, a.poll, report)
}

// pollEvery calls poll every period until ctx ends, with maxTrust as its timeout, after which the
// last result is no longer used. It reports failures to report.
func pollEvery(ctx context.Context, period time.Duration, poll func(context.Context) error, report func(error)) {
	task.Repeat(ctx, 0, period, func() {
		within, cancel := context.WithTimeout(ctx, maxTrust)
		defer cancel()
		if err := poll(within); err != nil && ctx.Err() == nil {
			report(err)
		}
	})
}

// poll queries once.
func (a *Authenticator) poll(ctx context.Context) error {
	start := time.Now()
	version, err := a.store.KeysVersion(ctx)
	if err != nil {
		return fmt.Errorf("checking whether keys have changed: %w", err)
	}
	last := a.view.Load()
	next := view{generation: last.generation, version: version, polled: start}
	if version != last.version || last.polled.IsZero() { // keys cached before the first poll may have changed since
		next.generation++
	}
	a.view.Store(&next)
	return nil
}
