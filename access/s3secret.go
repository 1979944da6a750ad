package access

import (
	"context"
	"errors"
	"fmt"

	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/access/sealed"
	"sluice/database"
)

// S3Secret returns the holder of the key with this id, and its S3 secret, which must have made the
// request's signature: the caller compares. It returns ErrUnknownKey if there is no such key, it is
// no longer valid, or it has no S3 secret that can be opened; any other error means that the store
// could not be queried.
func (a *Authenticator) S3Secret(ctx context.Context, id string) (caller *Caller, secret string, err error) {
	if !isID(id) {
		return nil, "", ErrUnknownKey
	}
	if caller, err = a.find(ctx, id); err != nil {
		return nil, "", err
	}
	if !a.signs(caller) {
		return nil, "", ErrUnknownKey
	}
	return caller.signer, caller.s3Secret, nil
}

// RememberedS3Secret is S3Secret from the cache, as Remembered is Authenticate: it queries no
// store. Without current the secret may have been replaced since, so a signature that it has not
// made may still be valid.
func (a *Authenticator) RememberedS3Secret(id string) (caller *Caller, secret string, current bool) {
	if !isID(id) {
		return nil, "", true
	}
	e, ok := a.cache.GetIfPresent(id)
	if !ok {
		return nil, "", false
	}
	current = a.current(e, a.view.Load())
	if !a.signs(e.caller) {
		return nil, "", current
	}
	return e.caller.signer, e.caller.s3Secret, current
}

// signs reports whether a key is valid and has an S3 secret. caller may be nil.
func (a *Authenticator) signs(caller *Caller) bool {
	return caller != nil && caller.s3Secret != "" && caller.valid(a.store.Now())
}

func isID(text string) bool { return len(text) == idLength && isRandomText(text) }

// ResealS3Secrets seals again, with the first master key, the S3 secrets that an older master key
// has sealed, so that older ones can be removed. It returns how many it has sealed. The keys that
// no master key opens remain as they are, and are in the error, which joins one for each. decide
// calls reseal for a key with the act to be recorded, which may be nil.
func ResealS3Secrets(ctx context.Context, store keys.Store, box *sealed.Box, decide func(k *keys.Key, reseal func(*actions.Act) error) error) (n int, err error) {
	const page = 1000
	var failed []error
	for after := ""; ; {
		list, err := store.ListKeys(ctx, after, page)
		if err != nil {
			return n, err
		}
		for _, k := range list {
			after = k.ID
			if k.S3Secret == nil || box.Current(k.S3Secret) {
				continue
			}
			err := decide(&k, func(act *actions.Act) error { return reseal(ctx, store, box, k.ID, act) })
			switch {
			case errors.Is(err, sealed.ErrUnknownMaster), errors.Is(err, sealed.ErrDamaged):
				failed = append(failed, fmt.Errorf("the S3 secret of the key %s: %w", k.ID, err))
			case err != nil:
				return n, err
			default:
				n++
			}
		}
		if len(list) < page {
			return n, errors.Join(failed...)
		}
	}
}

func reseal(ctx context.Context, store keys.Store, box *sealed.Box, id string, act *actions.Act) error {
	_, err := store.UpdateKey(ctx, id, func(k *keys.Key) error {
		if k.S3Secret == nil || box.Current(k.S3Secret) { // changed meanwhile
			return nil
		}
		secret, err := box.Open(id, k.S3Secret)
		if err == nil {
			k.S3Secret = box.Seal(id, secret)
		}
		return err
	}, act)
	if errors.Is(err, database.ErrNotFound) {
		return nil
	}
	return err
}
