package access

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/access/sealed"
	"sluice/database"
)

// NewKey describes a key to be created.
type NewKey struct {
	// Label is the creator's note: at most 128 bytes of printable text. It may be empty.
	Label string
	// Scopes are the classes of operations that the key permits; at least one.
	Scopes []Scope
	// Accounts are the accounts for which it is valid, in their canonical form; nil means
	// all. An empty list that is not nil is an error.
	Accounts []string
	// Prefix begins the names of the blobs for which it is valid, up to 1,024 bytes. It may be
	// empty.
	Prefix string
	// Grants are up to 16 grants, in place of one of Scopes, Accounts and Prefix.
	Grants []keys.Grant
	// Group names the keys that share limits and own their blobs together: 1 to 64 of A-Z, a-z,
	// 0-9, ".", "_" and "-". If it is empty, the key forms a group of its own, named like its id.
	Group string
	// Expires is when the key ceases to be valid; zero means never.
	Expires time.Time
	// Limits are the group's limits. Each is above 0, or 0 for the service's default, or
	// keys.Unlimited. For a group that has keys already each must be 0 or as the group has it.
	Limits keys.Limits
	// S3 seals the S3 secret that the key gets; nil: it gets none.
	S3 *sealed.Box
	// Decide returns the act to be recorded, or why it is not permitted to create the key, which it
	// is called with. nil: it is permitted, and nothing is recorded.
	Decide func(k keys.Key) (*actions.Act, error)
	// Once makes a repeated Create return the first one's key, without secrets. It may be nil.
	Once *database.Idempotency
}

// Issued is a key as it is stored, and the secrets that it was given. They cannot be recovered
// later: only the SHA-256 of a credential's secret is stored, and an S3 secret is sealed.
type Issued struct {
	Key        keys.Key
	Credential string // "": the key had one before
	S3Secret   string // "": the key was given none
}

// Create creates a key. It returns ErrInvalidKey, or keys.ErrGroupLimits if the group has other
// limits.
func Create(ctx context.Context, store keys.Store, n NewKey) (Issued, error) {
	id, secret := newID(), newSecret()
	k, err := n.describe()
	if err != nil {
		return Issued{}, err
	}
	k.ID, k.Hash = id, sha256.Sum256([]byte(secret))
	if k.Group == "" {
		k.Group = id
	}
	var s3Secret string
	if n.S3 != nil {
		s3Secret = newS3Secret()
		k.S3Secret = n.S3.Seal(id, s3Secret)
	}
	var act *actions.Act
	if n.Decide != nil {
		if act, err = n.Decide(k); err != nil {
			return Issued{}, err
		}
	}
	created, err := store.CreateKey(ctx, k, act, n.Once)
	if err != nil || created.ID != id {
		return Issued{Key: created}, err
	}
	k = created
	return Issued{k, formatCredential(id, secret), s3Secret}, nil
}

// describe returns the key as it is stored, without its id and secret.
func (n NewKey) describe() (keys.Key, error) {
	granted, err := n.grants()
	if err != nil {
		return keys.Key{}, err
	}
	if err := checkLabel(n.Label); err != nil {
		return keys.Key{}, err
	}
	if err := checkGroup(n.Group); err != nil {
		return keys.Key{}, err
	}
	if err := checkLimits(n.Limits); err != nil {
		return keys.Key{}, fmt.Errorf("%w: %w", ErrInvalidKey, err)
	}
	return keys.Key{Label: n.Label, Grants: granted, Group: n.Group, Expires: n.Expires, Limits: n.Limits}, nil
}

func (n NewKey) grants() ([]keys.Grant, error) {
	one := keys.Grant{Accounts: n.Accounts, Prefix: n.Prefix}
	for _, s := range n.Scopes {
		one.Scopes = append(one.Scopes, string(s))
	}
	switch {
	case n.Grants == nil:
		return CheckGrants([]keys.Grant{one})
	case n.Scopes != nil || n.Accounts != nil || n.Prefix != "":
		return nil, fmt.Errorf("%w: name its grants, or the scopes, accounts and prefix of one grant", ErrInvalidKey)
	default:
		return CheckGrants(n.Grants)
	}
}

const (
	maxLabel = 128 // bytes
	maxGroup = 64  // characters
)

// checkLabel refuses labels that a terminal would not show as they are.
func checkLabel(label string) error {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if len(label) > maxLabel || !utf8.ValidString(label) || strings.ContainsFunc(label, unprintable) {
		return fmt.Errorf("%w: its label must be printable text of at most %d bytes", ErrInvalidKey, maxLabel)
	}
	return nil
}

// checkGroup restricts groups to characters that no format has to escape.
func checkGroup(group string) error {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	}
	if len(group) > maxGroup || strings.ContainsFunc(group, odd) {
		return fmt.Errorf(`%w: its group must be 1 to %d of A-Z, a-z, 0-9, ".", "_" and "-"`, ErrInvalidKey, maxGroup)
	}
	return nil
}

func checkLimits(l keys.Limits) error {
	for _, k := range keys.LimitKinds {
		limit := *k.Of(&l)
		if limit < 0 && limit != keys.Unlimited {
			return fmt.Errorf("%d is not a limit; it must be above 0, or %d for unlimited", limit, keys.Unlimited)
		}
	}
	return nil
}

// KeyChange describes how to change a key. A field that is nil stays as it is.
type KeyChange struct {
	Label   *string      // as NewKey.Label
	Grants  []keys.Grant // in place of all that it has
	Expires *time.Time   // as NewKey.Expires; a pointer to the zero time means never
	// S3 seals a new S3 secret, in place of one that the key has; nil: it stays as it is.
	S3 *sealed.Box
	// NoS3 removes the key's S3 secret.
	NoS3 bool
	// Secret gives it a new secret, which replaces its old one.
	Secret bool
	// Decide returns the act to be recorded, or why the change is not permitted. The key is before
	// and after it. nil: it is permitted, and nothing is recorded.
	Decide func(before, after keys.Key) (*actions.Act, error)
}

// Update changes a key, also one that has expired or was revoked; a revoked key remains revoked.
// Nodes apply the change like RevokeKey's. It returns ErrInvalidKey or database.ErrNotFound.
func Update(ctx context.Context, store keys.Store, id string, c KeyChange) (Issued, error) {
	var secret, s3Secret string
	if c.S3 != nil {
		s3Secret = newS3Secret()
	}
	if c.Secret {
		secret = newSecret()
	}
	change := func(k *keys.Key) (err error) {
		if c.Grants != nil {
			if k.Grants, err = CheckGrants(c.Grants); err != nil {
				return err
			}
		}
		if c.Label != nil {
			k.Label = *c.Label
		}
		if c.Expires != nil {
			k.Expires = *c.Expires
		}
		switch {
		case c.NoS3:
			k.S3Secret = nil
		case c.S3 != nil:
			k.S3Secret = c.S3.Seal(k.ID, s3Secret)
		}
		if c.Secret {
			k.Hash = sha256.Sum256([]byte(secret))
		}
		return checkLabel(k.Label)
	}
	act, err := c.decide(ctx, store, id, change)
	if err != nil {
		return Issued{}, err
	}
	k, err := store.UpdateKey(ctx, id, change, act)
	if err != nil {
		return Issued{}, err
	}
	issued := Issued{Key: k, S3Secret: s3Secret}
	if c.Secret {
		issued.Credential = formatCredential(k.ID, secret)
	}
	return issued, nil
}

// decide returns the change's act.
func (c KeyChange) decide(ctx context.Context, store keys.Store, id string, change func(*keys.Key) error) (*actions.Act, error) {
	if c.Decide == nil {
		return nil, nil
	}
	before, err := store.Key(ctx, id)
	if err != nil {
		return nil, err
	}
	after := before
	if err := change(&after); err != nil {
		return nil, err
	}
	return c.Decide(before, after)
}

// SetLimits changes a group's limits, and returns them as stored. A limit that is 0 in limits stays
// as it is; the kinds in defaults get the service's limits. Nodes apply the change like
// RevokeKey's. It returns ErrInvalidLimit, or database.ErrNotFound if the group never had a key.
func SetLimits(ctx context.Context, store keys.Store, group string, limits keys.Limits, defaults []keys.LimitKind, decide func(before, after keys.Limits) (*actions.Act, error)) (keys.Limits, error) {
	if err := checkLimits(limits); err != nil {
		return keys.Limits{}, fmt.Errorf("%w: %w", ErrInvalidLimit, err)
	}
	change := func(l *keys.Limits) {
		*l = limits.Or(*l)
		for _, k := range defaults {
			*k.Of(l) = 0
		}
	}
	var act *actions.Act
	if decide != nil {
		before, err := store.GroupLimits(ctx, group)
		if err != nil {
			return keys.Limits{}, err
		}
		after := before
		change(&after)
		if act, err = decide(before, after); err != nil {
			return keys.Limits{}, err
		}
	}
	return store.SetGroupLimits(ctx, group, change, act)
}
