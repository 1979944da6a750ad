package admin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/access"
	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/blob"
	"sluice/database"
	"sluice/wire"
)

// remedy is how a client that has lost a key's secrets gets new ones.
const remedy = `the secrets were in the response to the first request only: PATCH the key with {"newSecret": true}, and with {"newS3Secret": true} if it needs one; or revoke it`

// CreateKey creates a key. With once, a repeated request returns the key that the first one
// created, without its secrets and with a remedy.
func (s *Service) CreateKey(ctx context.Context, by By, in wire.CreateKey, once *database.Idempotency) (out wire.IssuedKey, err error) {
	n, err := s.newKey(in)
	if err != nil {
		return out, err
	}
	issued, err := s.issueKey(ctx, by, n, once)
	if err != nil {
		return out, err
	}
	if out = s.issued(issued); issued.Credential == "" {
		out.Remedy = remedy
		_, err = s.Key(ctx, by, issued.Key.ID) // they may no longer see it
	}
	return out, err
}

// issueKey is CreateKey for a described key.
func (s *Service) issueKey(ctx context.Context, by By, described access.NewKey, once *database.Idempotency) (issued access.Issued, err error) {
	err = s.decide(ctx, by, func(a actor) error {
		n := described
		if !n.Expires.IsZero() && !n.Expires.After(a.now) {
			return fmt.Errorf("%w: expires has passed", ErrInvalid)
		}
		if !a.everything() {
			if n.Group != "" && n.Group != a.key.Group {
				return fmt.Errorf("%w: the keys that yours creates belong to its group %q", ErrBeyond, a.key.Group)
			}
			if n.Limits != (keys.Limits{}) {
				return fmt.Errorf("%w: limits need admin for all accounts", ErrBeyond)
			}
			n.Group = a.key.Group
		}
		n.Once, n.Decide = once, func(k keys.Key) (*actions.Act, error) {
			if err := a.mayGive(&k, true, keys.Key{}); err != nil {
				return nil, err
			}
			k.Created = a.now
			return a.act("key.create", k.ID, accountsOf(&k), nil, s.recorded(&k, recordedSecrets{NewSecret: true, NewS3Secret: n.S3 != nil}))
		}
		issued, err = access.Create(ctx, s.store, n)
		return keyError(err)
	})
	return issued, err
}

// newKey returns the key that a request describes.
func (s *Service) newKey(in wire.CreateKey) (n access.NewKey, err error) {
	n = access.NewKey{Label: in.Label, Group: in.Group}
	if n.Grants, err = grantsOf(in.Grants); err != nil {
		return n, err
	}
	if n.Expires, err = expiryOf(in.Expires); err != nil {
		return n, err
	}
	if n.Limits, _, err = limitsOf(in.Limits); err != nil {
		return n, err
	}
	if in.S3 {
		n.S3, err = s.opt.S3, s.checkS3()
	}
	return n, err
}

func (s *Service) checkS3() error {
	if s.opt.S3 == nil {
		return fmt.Errorf("%w: keys get S3 secrets only where --s3-secret-key-file is set", ErrInvalid)
	}
	return nil
}

// grantsOf returns a request's grants, with accounts in their canonical form.
func grantsOf(in []wire.Grant) ([]keys.Grant, error) {
	grants := make([]keys.Grant, 0, len(in))
	for _, g := range in {
		granted := keys.Grant{Scopes: g.Scopes, Prefix: g.Prefix}
		if g.Accounts != nil {
			granted.Accounts = []string{}
		}
		for _, text := range g.Accounts {
			account, err := blob.ParseAccount(text)
			if err != nil {
				return nil, err
			}
			granted.Accounts = append(granted.Accounts, account)
		}
		grants = append(grants, granted)
	}
	return grants, nil
}

// expiryOf parses a time of expiry; "" means never.
func expiryOf(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() > 9999 || t.Year() < 1970 {
		return t, fmt.Errorf("%w: expires must be a time such as 2030-01-02T15:04:05Z (RFC 3339)", ErrInvalid)
	}
	return t.UTC(), nil
}

// Keys returns the keys that they may see. A page may have fewer entries than limit, even none, and
// a next.
func (s *Service) Keys(ctx context.Context, by By, after string, limit int) (out wire.KeyPage, err error) {
	a, err := s.actorOf(ctx, by)
	if err != nil {
		return out, err
	}
	out.Keys = []wire.Key{}
	size := 0
	for range maxScanned / listPage {
		page, err := s.store.ListKeys(ctx, after, listPage)
		if err != nil {
			return wire.KeyPage{}, err
		}
		for i := range page {
			after = page[i].ID
			if a.sees(&page[i]) {
				if len(out.Keys) == limit || size > pageBytes {
					out.Next = out.Keys[len(out.Keys)-1].ID
					return out, nil
				}
				out.Keys = append(out.Keys, s.key(&page[i]))
				size += sizeOf(&page[i])
			}
		}
		if len(page) < listPage {
			return out, nil
		}
	}
	out.Next = after
	return out, nil
}

// sizeOf returns the bytes of a key's texts.
func sizeOf(k *keys.Key) (n int) {
	for _, g := range k.Grants {
		n += len(g.Prefix)
		for _, account := range g.Accounts {
			n += len(account)
		}
	}
	return n
}

// Key returns a key.
func (s *Service) Key(ctx context.Context, by By, id string) (wire.Key, error) {
	a, err := s.actorOf(ctx, by)
	if err != nil {
		return wire.Key{}, err
	}
	k, err := s.store.Key(ctx, id)
	if err == nil && !a.sees(&k) {
		err = fmt.Errorf("%w: the key %q", ErrNotFound, id)
	}
	if err != nil {
		return wire.Key{}, keyError(err)
	}
	return s.key(&k), nil
}

// KeyUpdate states how a key is changed.
type KeyUpdate struct {
	wire.UpdateKey

	Match func(etag string) bool // the condition on the key before; nil: there is none
	Force bool                   // it may be the last key with admin for all accounts
}

// UpdateKey changes a key, and returns it with the secrets that it was given.
func (s *Service) UpdateKey(ctx context.Context, by By, id string, u KeyUpdate) (out wire.IssuedKey, err error) {
	change, err := s.keyChange(u.UpdateKey)
	if err != nil {
		return out, err
	}
	issued, err := s.changeKey(ctx, by, id, change, u.Match, u.Force)
	if err != nil {
		return out, err
	}
	return s.issued(issued), nil
}

// changeKey is UpdateKey for a described change.
func (s *Service) changeKey(ctx context.Context, by By, id string, change access.KeyChange, match func(etag string) bool, force bool) (issued access.Issued, err error) {
	err = s.decide(ctx, by, func(a actor) error {
		if e := change.Expires; e != nil && !e.IsZero() && !e.After(a.now) {
			return fmt.Errorf("%w: expires has passed: revoke the key instead", ErrInvalid)
		}
		change := change
		change.Decide = func(before, after keys.Key) (*actions.Act, error) {
			if err := a.mayManage(&before); err != nil {
				return nil, err
			}
			if match != nil && !match(etagOf(&before)) {
				return nil, ErrChanged
			}
			given := recordedSecrets{NewSecret: change.Secret, NewS3Secret: change.S3 != nil}
			fresh := given != recordedSecrets{}
			if err := errors.Join(a.mayGive(&after, fresh, before), s.checkLast(ctx, a, &before, &after, force)); err != nil {
				return nil, err
			}
			return a.act("key.update", id, accountsOf(&before, &after), s.recorded(&before, recordedSecrets{}), s.recorded(&after, given))
		}
		issued, err = access.Update(ctx, s.store, id, change)
		return keyError(err)
	})
	return issued, err
}

// keyChange returns the change that a request describes.
func (s *Service) keyChange(in wire.UpdateKey) (c access.KeyChange, err error) {
	c = access.KeyChange{Label: in.Label, Secret: in.NewSecret, NoS3: in.RemoveS3Secret}
	if in.Grants != nil {
		if c.Grants, err = grantsOf(*in.Grants); err != nil {
			return c, err
		}
	}
	if in.Expires != nil {
		expires, err := expiryOf(*in.Expires)
		if err != nil {
			return c, err
		}
		c.Expires = &expires
	}
	switch {
	case in.NewS3Secret && in.RemoveS3Secret:
		return c, fmt.Errorf("%w: newS3Secret and removeS3Secret: set one of them", ErrInvalid)
	case in.NewS3Secret:
		c.S3, err = s.opt.S3, s.checkS3()
	}
	return c, err
}

// RevokeKey revokes a key permanently. Repeated, it has no effect. force permits to revoke the last
// key with admin for all accounts.
func (s *Service) RevokeKey(ctx context.Context, by By, id string, force bool) (out wire.Key, err error) {
	err = s.decide(ctx, by, func(a actor) error {
		before, err := s.store.Key(ctx, id)
		if err != nil {
			return keyError(err)
		}
		if err := a.mayManage(&before); err != nil {
			return err
		}
		after := before
		after.Revoked = a.now
		if err := s.checkLast(ctx, a, &before, &after, force); err != nil {
			return err
		}
		a.bounds.Acts = 0 // a leaked key must not keep its owner from revoking it
		act, err := a.act("key.revoke", id, accountsOf(&before), s.recorded(&before, recordedSecrets{}), nil)
		if err != nil {
			return err
		}
		revoked, err := s.store.RevokeKey(ctx, id, act)
		out = s.key(&revoked)
		return err
	})
	return out, err
}

// ResealS3Secrets is access.ResealS3Secrets for the operator at the database, with the secrets of
// webhooks.
func (s *Service) ResealS3Secrets(ctx context.Context, by By) (n int, err error) {
	n, err = s.resealKeys(ctx, by)
	webhooks, err2 := s.resealWebhooks(ctx, by)
	return n + webhooks, errors.Join(err, err2)
}

func (s *Service) resealKeys(ctx context.Context, by By) (n int, err error) {
	return access.ResealS3Secrets(ctx, s.store, s.opt.S3, func(k *keys.Key, reseal func(*actions.Act) error) error {
		return s.decide(ctx, by, func(a actor) error {
			act, err := a.act("key.reseal", k.ID, accountsOf(k), nil, nil)
			if err != nil {
				return err
			}
			return reseal(act)
		})
	})
}

// keyError translates the errors of stores and of package access.
func keyError(err error) error {
	switch {
	case errors.Is(err, database.ErrNotFound):
		return fmt.Errorf("%w: the key", ErrNotFound)
	case errors.Is(err, keys.ErrGroupLimits):
		return fmt.Errorf("%w: the group has other limits: set the same ones, or none", ErrConflict)
	}
	return err
}

// key returns a key as clients see it.
func (s *Service) key(k *keys.Key) wire.Key {
	out := wire.Key{
		ID: k.ID, State: wire.KeyActive, Label: k.Label, Grants: []wire.Grant{}, Group: k.Group, Limits: k.Limits.Members(), S3: k.S3Secret != nil,
		Created: k.Created, Expires: k.Expires, Revoked: k.Revoked, ETag: etagOf(k),
	}
	for _, g := range k.Grants {
		out.Grants = append(out.Grants, wire.Grant{Scopes: g.Scopes, Accounts: g.Accounts, Prefix: g.Prefix})
	}
	switch {
	case !k.Revoked.IsZero():
		out.State = wire.KeyRevoked
	case !valid(k, s.store.Now()):
		out.State = wire.KeyExpired
	}
	return out
}

func (s *Service) issued(i access.Issued) wire.IssuedKey {
	return wire.IssuedKey{Key: s.key(&i.Key), Secret: i.Credential, S3Secret: i.S3Secret}
}

// recordedSecrets reports which secrets a key was given.
type recordedSecrets struct {
	NewSecret   bool `json:"newSecret,omitempty"`
	NewS3Secret bool `json:"newS3Secret,omitempty"`
}

// recorded returns a key for an action's record.
func (s *Service) recorded(k *keys.Key, secrets recordedSecrets) any {
	out := struct {
		wire.Key
		recordedSecrets
	}{s.key(k), secrets}
	out.ETag = ""
	return out
}

// accountsOf returns the accounts for which the keys are valid; nil: all.
func accountsOf(list ...*keys.Key) []string {
	accounts := []string{}
	for _, k := range list {
		for _, g := range k.Grants {
			if g.Accounts == nil {
				return nil
			}
			accounts = append(accounts, g.Accounts...)
		}
	}
	slices.Sort(accounts)
	return slices.Compact(accounts)
}

// etagOf returns a tag that differs for every two states. It does not depend on the
// group's limits.
func etagOf(k *keys.Key) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %x %q %q %q %x %d %d %d", k.ID, k.Hash, k.Label, fmt.Sprintf("%#v", k.Grants), k.Group, k.S3Secret, k.Created.UnixMicro(), k.Expires.UnixMicro(), k.Revoked.UnixMicro()))
	return fmt.Sprintf(`"%x"`, sum[:16])
}
