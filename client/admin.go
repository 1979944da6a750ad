package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/wire"
)

// ErrSecretLost is returned by Admin.CreateKey if the key was created, but the response with its
// secret was lost. UpdateKey with NewSecret replaces the secret.
var ErrSecretLost = errors.New("the key was created, but the response with its secret was lost: replace the secret, or revoke the key")

// Admin is a client for administrators, see Client.Admin. It may be used
// concurrently.
type Admin struct{ c *Client }

// Admin returns a client for administrators. The client's key needs the scope
// admin, except on a local instance. If the operator has moved the operations to the address for
// administrators (--admin-api admin), the client's URL must have that address.
func (c *Client) Admin() *Admin { return &Admin{c} }

// Now returns the server's time, in whole seconds.
func (a *Admin) Now(ctx context.Context) (time.Time, error) {
	r := newRequest("the server's time", http.MethodGet, "/v1/admin/keys", readOnly)
	r.query.Set("limit", "1")
	h, err := a.c.call(ctx, r, nil)
	if err != nil {
		return time.Time{}, err
	}
	now, err := parseTime(h, "Date", http.ParseTime)
	if err == nil && now.IsZero() {
		err = invalid("Date", "is missing")
	}
	if err != nil {
		return time.Time{}, r.failed(err)
	}
	return now, nil
}

// Keys returns the keys that the client's key may see, sorted by id. The sequence ends with the
// first error, as all lists do.
func (a *Admin) Keys(ctx context.Context) iter.Seq2[wire.Key, error] {
	return adminList(ctx, a.c, "keys", orderedList[wire.KeyPage, wire.Key]{
		of: func(p *wire.KeyPage) ([]wire.Key, string) { return p.Keys, p.Next },
		at: func(k *wire.Key) string { return k.ID }, check: checkKey,
	})
}

// Key returns a key, also one that has expired or was revoked, or ErrNotFound.
func (a *Admin) Key(ctx context.Context, id string) (wire.Key, error) {
	return adminCall(ctx, a.c, "show a key", http.MethodGet, "keys/"+url.PathEscape(id), nil, nil, func(k *wire.Key) error { return checkSame(k.ID, id, checkKey(k)) })
}

// CreateKeyOptions are the options of Admin.CreateKey.
type CreateKeyOptions struct {
	IdempotencyKey string // as in CreateSessionOptions
}

// CreateKey creates a key. It repeats the request until its outcome is known, and creates only one.
// The secrets are in the response to the first request only: if that was lost, CreateKey returns
// the key without them, and ErrSecretLost.
func (a *Admin) CreateKey(ctx context.Context, key wire.CreateKey, o CreateKeyOptions) (wire.IssuedKey, error) {
	set := func(r *request) { setIdempotencyKey(r, o.IdempotencyKey) }
	issued, err := adminCall(ctx, a.c, "create a key", http.MethodPost, "keys", key, set, func(k *wire.IssuedKey) error {
		if (k.Secret == "") != (k.Remedy != "") {
			return invalid("secret", "is missing, or is in the response to a repeated request")
		}
		return checkIssued(k)
	})
	if err == nil && issued.Secret == "" {
		err = fmt.Errorf("client: create a key: %w: it has the id %s", ErrSecretLost, issued.ID)
	}
	return issued, err
}

// UpdateOptions are the options of updates.
type UpdateOptions struct {
	// IfMatch is the ETag that the changed state must have: otherwise it is
	// ErrPreconditionFailed. "": any state.
	IfMatch string

	// Force permits that no valid key administers all accounts any more.
	Force bool
}

func (o UpdateOptions) set(r *request) {
	r.header.Set("If-Match", cmp.Or(o.IfMatch, "*"))
	r.conditional = o.IfMatch != ""
	if o.Force {
		r.query.Set("force", "true")
	}
}

// UpdateKey changes a key, and returns it with the secrets that it was given. If its response is
// lost and IfMatch is set, it returns ErrOutcomeUnknown: the secrets are lost then, too.
func (a *Admin) UpdateKey(ctx context.Context, id string, change wire.UpdateKey, o UpdateOptions) (wire.IssuedKey, error) {
	return adminCall(ctx, a.c, "update a key", http.MethodPatch, "keys/"+url.PathEscape(id), change, o.set, func(k *wire.IssuedKey) error {
		if (k.Secret != "") != change.NewSecret || (k.S3Secret != "") != change.NewS3Secret {
			return invalid("secret", "is missing, or was not requested")
		}
		return checkSame(k.ID, id, checkIssued(k))
	})
}

// RevokeKey revokes a key permanently. It may be repeated. force is as in UpdateOptions.
func (a *Admin) RevokeKey(ctx context.Context, id string, force bool) (wire.Key, error) {
	set := func(r *request) {
		if force {
			r.query.Set("force", "true")
		}
	}
	return adminCall(ctx, a.c, "revoke a key", http.MethodPost, "keys/"+url.PathEscape(id)+"/revoke", nil, set, func(k *wire.Key) error { return checkSame(k.ID, id, checkKey(k)) })
}

// Groups returns the groups of keys with their limits and use, sorted by name.
func (a *Admin) Groups(ctx context.Context) iter.Seq2[wire.Group, error] {
	return adminList(ctx, a.c, "groups", orderedList[wire.GroupPage, wire.Group]{
		of: func(p *wire.GroupPage) ([]wire.Group, string) { return p.Groups, p.Next },
		at: func(g *wire.Group) string { return g.Group }, check: checkGroup,
	})
}

// Group returns a group, or ErrNotFound.
func (a *Admin) Group(ctx context.Context, name string) (wire.Group, error) {
	return adminCall(ctx, a.c, "show a group", http.MethodGet, "groups/"+url.PathEscape(name), nil, nil, func(g *wire.Group) error { return checkSame(g.Group, name, checkGroup(g)) })
}

// UpdateGroup changes a group's limits, and returns it. Force has no meaning.
func (a *Admin) UpdateGroup(ctx context.Context, name string, change wire.UpdateGroup, o UpdateOptions) (wire.Group, error) {
	return adminCall(ctx, a.c, "update a group", http.MethodPatch, "groups/"+url.PathEscape(name), change, o.set, func(g *wire.Group) error { return checkSame(g.Group, name, checkGroup(g)) })
}

// Aliases returns the aliases of buckets, sorted by bucket.
func (a *Admin) Aliases(ctx context.Context) iter.Seq2[wire.Alias, error] {
	return adminList(ctx, a.c, "aliases", orderedList[wire.AliasPage, wire.Alias]{
		of: func(p *wire.AliasPage) ([]wire.Alias, string) { return p.Aliases, p.Next },
		at: func(a *wire.Alias) string { return a.Bucket }, check: checkAlias,
	})
}

// SetAlias makes a bucket's name an alias for an account. It may be repeated. It returns
// ErrConflict if the name is an alias for another account, or is an account with blobs.
func (a *Admin) SetAlias(ctx context.Context, bucket, account string) (wire.Alias, error) {
	return adminCall(ctx, a.c, "set an alias", http.MethodPut, "aliases/"+url.PathEscape(bucket), wire.SetAlias{Account: account}, nil, func(a *wire.Alias) error { return checkSame(a.Bucket, bucket, checkAlias(a)) })
}

// DeleteAlias removes an alias. The account's blobs remain. It returns ErrNotFound if there is no
// such alias.
func (a *Admin) DeleteAlias(ctx context.Context, bucket string) error {
	own := func(r *request) { r.ownEffect = func(err error) bool { return isMissing(err) } }
	_, err := adminCall[none](ctx, a.c, "remove an alias", http.MethodDelete, "aliases/"+url.PathEscape(bucket), nil, own, nil)
	if errors.Is(err, ErrOutcomeUnknown) && isMissing(err) { // an earlier attempt has removed it
		return nil
	}
	return err
}

// isMissing reports whether a thing that is administered does not exist.
func isMissing(err error) bool {
	e, reported := errors.AsType[*Error](err)
	return reported && e.Code == wire.CodeNotFound
}

// Damaged returns the extents that are known to have damaged bytes.
func (a *Admin) Damaged(ctx context.Context) iter.Seq2[wire.Damage, error] {
	return adminList(ctx, a.c, "damaged", orderedList[wire.DamagePage, wire.Damage]{
		of: func(p *wire.DamagePage) ([]wire.Damage, string) { return p.Damaged, p.Next },
		at: func(d *wire.Damage) string { return fmt.Sprintf("%s.%d.%d", d.Content, d.Part, d.Offset) }, check: checkDamage,
		order: func(a, b *wire.Damage) int {
			return cmp.Or(strings.Compare(a.Content, b.Content), cmp.Compare(a.Part, b.Part), cmp.Compare(a.Offset, b.Offset))
		},
	})
}

// Uploads returns the open uploads of all accounts, sorted by id.
func (a *Admin) Uploads(ctx context.Context) iter.Seq2[wire.OpenUpload, error] {
	return adminList(ctx, a.c, "uploads", orderedList[wire.OpenUploadPage, wire.OpenUpload]{
		of: func(p *wire.OpenUploadPage) ([]wire.OpenUpload, string) { return p.Uploads, p.Next },
		at: func(u *wire.OpenUpload) string { return u.UploadID },
		check: func(u *wire.OpenUpload) error {
			return cmp.Or(checkUpload(&u.Upload), checkWord("group", u.Group, maxWord))
		},
	})
}

// Actions returns the recorded actions that the client's key may see, the newest first.
func (a *Admin) Actions(ctx context.Context) iter.Seq2[wire.Action, error] {
	return adminList(ctx, a.c, "actions", orderedList[wire.ActionPage, wire.Action]{
		of: func(p *wire.ActionPage) ([]wire.Action, string) { return p.Actions, p.Next },
		at: func(a *wire.Action) string { return a.ID }, check: checkAction, sparse: true,
		order: func(a, b *wire.Action) int { return strings.Compare(b.ID, a.ID) },
	})
}
