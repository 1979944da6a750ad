package administration

import (
	"context"
	"iter"
	"os"
	"os/user"
	"time"

	"sluice/access/sealed"
	"sluice/admin"
	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
	"sluice/database/whole"
	"sluice/exchange"
	"sluice/node"
	"sluice/wire"
)

// S3Flags are the flags of commands that make S3 secrets. The file's has the setting's help.
type S3Flags struct {
	S3SecretKeyFile string `name:"s3-secret-key-file" placeholder:"FILE" type:"path" help:"${s3-secret-key-file_help}"`
}

// Box returns the box that seals S3 secrets.
func (f *S3Flags) Box() (*sealed.Box, error) {
	if f.S3SecretKeyFile == "" {
		return nil, cli.Usagef("--s3-secret-key-file: S3 secrets need a file with the key that seals them, equal on all nodes: (umask 077; openssl rand -hex 32 >FILE) makes one")
	}
	box, err := node.OpenS3Secrets(f.S3SecretKeyFile)
	if err != nil {
		return nil, cli.ExitWith(cli.ExitUsage, err)
	}
	return box, nil
}

// database is an instance by its database, on which the operator acts.
type database struct {
	service *admin.Service
	now     func() time.Time
	by      admin.By
}

// open returns the instance with a database.
func open(store whole.Database, o admin.Options) *database {
	return &database{admin.New(store, o), store.Now, Operator()}
}

// Operator returns the operator at the database, who runs this process.
func Operator() admin.By {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return admin.By{From: name + "@" + host}
}

// pageSize is the number of entries that are read at a time.
const pageSize = 1000

// all returns the entries of all pages, up to the first error.
func all[P, E any](ctx context.Context, by admin.By, list func(ctx context.Context, by admin.By, after string, limit int) (P, error), of func(P) ([]E, string)) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		for after, more := "", true; more; more = after != "" {
			page, err := list(ctx, by, after, pageSize)
			if err != nil {
				yield(*new(E), err)
				return
			}
			var entries []E
			entries, after = of(page)
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// same returns a condition for a state's ETag; nil for any state.
func same(etag string) func(string) bool {
	if etag == "" {
		return nil
	}
	return func(other string) bool { return other == etag }
}

func (d *database) Now(context.Context) (time.Time, error) { return d.now(), nil }

func (d *database) Keys(ctx context.Context) iter.Seq2[wire.Key, error] {
	return all(ctx, d.by, d.service.Keys, func(p wire.KeyPage) ([]wire.Key, string) { return p.Keys, p.Next })
}

func (d *database) Key(ctx context.Context, id string) (wire.Key, error) {
	return d.service.Key(ctx, d.by, id)
}

func (d *database) CreateKey(ctx context.Context, key wire.CreateKey, _ client.CreateKeyOptions) (wire.IssuedKey, error) {
	return d.service.CreateKey(ctx, d.by, key, nil)
}

func (d *database) UpdateKey(ctx context.Context, id string, change wire.UpdateKey, o client.UpdateOptions) (wire.IssuedKey, error) {
	return d.service.UpdateKey(ctx, d.by, id, admin.KeyUpdate{UpdateKey: change, Match: same(o.IfMatch), Force: o.Force})
}

func (d *database) RevokeKey(ctx context.Context, id string, force bool) (wire.Key, error) {
	return d.service.RevokeKey(ctx, d.by, id, force)
}

func (d *database) Groups(ctx context.Context) iter.Seq2[wire.Group, error] {
	return all(ctx, d.by, d.service.Groups, func(p wire.GroupPage) ([]wire.Group, string) { return p.Groups, p.Next })
}

func (d *database) Group(ctx context.Context, name string) (wire.Group, error) {
	return d.service.Group(ctx, d.by, name)
}

func (d *database) UpdateGroup(ctx context.Context, name string, change wire.UpdateGroup, o client.UpdateOptions) (wire.Group, error) {
	return d.service.UpdateGroup(ctx, d.by, name, same(o.IfMatch), change)
}

func (d *database) Aliases(ctx context.Context) iter.Seq2[wire.Alias, error] {
	return all(ctx, d.by, d.service.Aliases, func(p wire.AliasPage) ([]wire.Alias, string) { return p.Aliases, p.Next })
}

func (d *database) SetAlias(ctx context.Context, bucket, account string) (wire.Alias, error) {
	return d.service.SetAlias(ctx, d.by, bucket, wire.SetAlias{Account: account})
}

func (d *database) DeleteAlias(ctx context.Context, bucket string) error {
	return d.service.DeleteAlias(ctx, d.by, bucket)
}

func (d *database) Damaged(ctx context.Context) iter.Seq2[wire.Damage, error] {
	return all(ctx, d.by, d.service.Damaged, func(p wire.DamagePage) ([]wire.Damage, string) { return p.Damaged, p.Next })
}

func (d *database) Uploads(ctx context.Context) iter.Seq2[wire.OpenUpload, error] {
	list := func(ctx context.Context, by admin.By, after string, limit int) (wire.OpenUploadPage, error) {
		return d.service.Uploads(ctx, by, after, limit, exchange.PageBytes)
	}
	return all(ctx, d.by, list, func(p wire.OpenUploadPage) ([]wire.OpenUpload, string) { return p.Uploads, p.Next })
}

func (d *database) Actions(ctx context.Context) iter.Seq2[wire.Action, error] {
	return all(ctx, d.by, d.service.Actions, func(p wire.ActionPage) ([]wire.Action, string) { return p.Actions, p.Next })
}

func (d *database) Tasks(ctx context.Context) ([]wire.Task, error) {
	list, err := d.service.Tasks(ctx, d.by)
	return list.Tasks, err
}

func (d *database) StartTask(ctx context.Context, name string) (wire.Task, error) {
	return d.service.StartTask(ctx, d.by, name)
}

func (d *database) PauseTask(ctx context.Context, name string) (wire.Task, error) {
	return d.service.PauseTask(ctx, d.by, name)
}

func (d *database) ResumeTask(ctx context.Context, name string) (wire.Task, error) {
	return d.service.ResumeTask(ctx, d.by, name)
}

func (d *database) Nodes(ctx context.Context) ([]wire.Node, error) {
	list, err := d.service.Nodes(ctx, d.by)
	return list.Nodes, err
}

func (d *database) Places(ctx context.Context, account string) iter.Seq2[wire.Place, error] {
	list := func(ctx context.Context, by admin.By, after string, limit int) (wire.PlacePage, error) {
		return d.service.Places(ctx, by, account, after, limit)
	}
	return all(ctx, d.by, list, func(p wire.PlacePage) ([]wire.Place, string) { return p.Places, p.Next })
}

func (d *database) Place(ctx context.Context, of client.PlaceName) (wire.PlaceRule, error) {
	return d.service.Place(ctx, d.by, of.Account, of.Prefix, of.Blob)
}

func (d *database) ChangePlace(ctx context.Context, of client.PlaceName, change wire.ChangePlace) (wire.Place, error) {
	return d.service.ChangePlace(ctx, d.by, of.Account, of.Prefix, of.Blob, change)
}

func (d *database) Versions(ctx context.Context) iter.Seq2[wire.Keeping, error] {
	return all(ctx, d.by, d.service.Keepings, func(p wire.KeepingPage) ([]wire.Keeping, string) { return p.Accounts, p.Next })
}

func (d *database) AccountVersions(ctx context.Context, account string) (wire.Keeping, error) {
	return d.service.Keeping(ctx, d.by, account)
}

func (d *database) SetVersions(ctx context.Context, account string, set wire.SetKeeping, o client.UpdateOptions) (wire.Keeping, error) {
	return d.service.SetKeeping(ctx, d.by, account, same(o.IfMatch), set)
}

func (d *database) Rules(ctx context.Context) iter.Seq2[wire.Rules, error] {
	return all(ctx, d.by, d.service.RuledAccounts, func(p wire.RulesPage) ([]wire.Rules, string) { return p.Accounts, p.Next })
}

func (d *database) AccountRules(ctx context.Context, account string) (wire.Rules, error) {
	return d.service.Rules(ctx, d.by, account)
}

func (d *database) SetRules(ctx context.Context, account string, rules []wire.Rule, o client.UpdateOptions) (wire.Rules, error) {
	return d.service.SetRules(ctx, d.by, account, same(o.IfMatch), wire.SetRules{Rules: rules})
}

func (d *database) PreviewRules(ctx context.Context, account string, rules []wire.Rule) iter.Seq2[wire.RulesPreview, error] {
	return client.SumPreviews(func(after string) (wire.RulesPreview, error) {
		return d.service.PreviewRules(ctx, d.by, account, wire.PreviewRules{Rules: &rules, After: after})
	})
}
