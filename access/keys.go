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

// AuthenticatorOptions are the settings of Keys. The zero value works.
type AuthenticatorOptions struct {
	// Poll is how often Run asks whether keys changed. Default 1 s.
	Poll time.Duration
	// Size is the number of keys that are remembered. Default 10,000.
	Size int
}

// maxTrust is how long a remembered key is believed without the store having
// said that no key changed.
const maxTrust = 10 * time.Second

// KeyStore is where keys are kept, and by whose time they end.
type KeyStore interface {
	metastore.Keys
	metastore.Clock
}

// Keys tells whose key a credential is. Its methods may be called at once from
// many goroutines.
//
// Keys that were found are remembered, without their secrets. While Run runs, a
// key that was created or revoked over another handle of the store is seen
// after Poll, usually. When the store cannot be asked, remembered keys are good
// for 10 s more; after that the errors of the store pass through. Without Run
// the store is asked each time.
type Authenticator struct {
	store KeyStore
	opt   AuthenticatorOptions
	found *otter.Cache[string, entry]
	view  atomic.Pointer[view]
}

// view is what the last poll said. A remembered key counts only in the
// generation in which its reading from the store began: one that was read
// before a change and remembered after it is never believed.
type view struct {
	generation int64     // counts the changes
	version    int64     // of the keys
	polled     time.Time // when the last poll that had an answer began; zero: none had
}

// entry is a remembered key.
type entry struct {
	caller     *Caller
	generation int64
}

// NewKeys gives the Keys of a store.
func NewKeys(store KeyStore, opt AuthenticatorOptions) *Authenticator {
	if opt.Poll == 0 {
		opt.Poll = time.Second
	}
	if opt.Size == 0 {
		opt.Size = 10_000
	}
	k := &Authenticator{
		store: store,
		opt:   opt,
		found: otter.Must(&otter.Options[string, entry]{MaximumSize: opt.Size}),
	}
	k.view.Store(&view{})
	return k
}

// Authenticate gives the holder of the key that a credential is for.
// ErrUnknownKey when there is none; any other error says that it is not known
// whether there is one.
func (k *Authenticator) Authenticate(ctx context.Context, credential string) (*Caller, error) {
	id, secret, ok := parseCredential(credential)
	if !ok {
		return nil, ErrUnknownKey
	}
	caller, err := k.find(ctx, id)
	if err != nil {
		return nil, err
	}
	var want [sha256.Size]byte // of an unknown key, so that it takes as long to refuse
	if caller != nil {
		want = caller.key.Hash
	}
	hash := sha256.Sum256([]byte(secret))
	same := subtle.ConstantTimeCompare(hash[:], want[:]) == 1
	if caller == nil || !same || !caller.valid(k.store.Now()) {
		return nil, ErrUnknownKey
	}
	return caller, nil
}

// Remembers reports whether Authenticate would answer without asking the store:
// it knows the key, or the credential cannot be one.
func (k *Authenticator) Remembers(credential string) bool {
	id, _, ok := parseCredential(credential)
	if !ok {
		return true
	}
	return k.remembered(id, k.view.Load()) != nil
}

// remembered gives the holder of a key that needs no asking, else nil.
func (k *Authenticator) remembered(id string, seen *view) *Caller {
	if e, ok := k.found.GetIfPresent(id); ok && e.generation == seen.generation && k.trusts(seen) {
		return e.caller
	}
	return nil
}

// find gives the holder of the key with this id, valid or not, nil when there
// is none.
func (k *Authenticator) find(ctx context.Context, id string) (*Caller, error) {
	seen := k.view.Load()
	if caller := k.remembered(id, seen); caller != nil {
		return caller, nil
	}
	key, err := k.store.Key(ctx, id)
	if errors.Is(err, metastore.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up a key: %w", err)
	}
	caller := newCaller(key)
	// Under the store's spelling of the id: ours would hold the secret in memory.
	k.found.Set(key.ID, entry{caller: caller, generation: seen.generation})
	return caller, nil
}

func (k *Authenticator) trusts(v *view) bool {
	return !v.polled.IsZero() && time.Since(v.polled) <= maxTrust
}

// Run asks the store every Poll whether keys changed, and forgets what is
// remembered when they did, until ctx ends. Failures go to report. It runs once
// at a time.
func (k *Authenticator) Run(ctx context.Context, report func(error)) {
	tick := time.NewTicker(k.opt.Poll)
	defer tick.Stop()
	for {
		if err := k.poll(ctx); err != nil && ctx.Err() == nil {
			report(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// poll asks once. It does not wait longer for an answer than the last one is
// good for.
func (k *Authenticator) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxTrust)
	defer cancel()
	began := time.Now()
	version, err := k.store.KeysVersion(ctx)
	if err != nil {
		return fmt.Errorf("asking whether keys changed: %w", err)
	}
	last := k.view.Load()
	next := view{generation: last.generation, version: version, polled: began}
	changed := version != last.version || last.polled.IsZero() // what came before the first poll was not watched
	if changed {
		next.generation++
	}
	k.view.Store(&next)
	if changed {
		k.found.InvalidateAll()
	}
	return nil
}
