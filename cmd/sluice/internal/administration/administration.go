// Package administration opens the instance that a command administers: a server, through its
// interface for administrators, or a database.
package administration

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"sluice/access"
	"sluice/admin"
	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/contexts"
	"sluice/cmd/sluice/internal/settings"
	"sluice/database/whole"
	"sluice/internal/datadir"
	"sluice/storage"
	"sluice/wire"
)

// Instance is the instance that a command administers: a *client.Admin, or a database. See
// client.Admin for the methods.
type Instance interface {
	Keys
	Groups
	Aliases
	Records
	Running
	Places
	Keepings
	Rules
}

// Keys administers API keys.
type Keys interface {
	Now(ctx context.Context) (time.Time, error)
	Keys(ctx context.Context) iter.Seq2[wire.Key, error]
	Key(ctx context.Context, id string) (wire.Key, error)
	CreateKey(ctx context.Context, key wire.CreateKey, o client.CreateKeyOptions) (wire.IssuedKey, error)
	UpdateKey(ctx context.Context, id string, change wire.UpdateKey, o client.UpdateOptions) (wire.IssuedKey, error)
	RevokeKey(ctx context.Context, id string, force bool) (wire.Key, error)
}

// Groups administers groups of keys.
type Groups interface {
	Groups(ctx context.Context) iter.Seq2[wire.Group, error]
	Group(ctx context.Context, name string) (wire.Group, error)
	UpdateGroup(ctx context.Context, name string, change wire.UpdateGroup, o client.UpdateOptions) (wire.Group, error)
}

// Aliases administers aliases of buckets.
type Aliases interface {
	Aliases(ctx context.Context) iter.Seq2[wire.Alias, error]
	SetAlias(ctx context.Context, bucket, account string) (wire.Alias, error)
	DeleteAlias(ctx context.Context, bucket string) error
}

// Records lists an instance's damage, open uploads and recorded actions.
type Records interface {
	Damaged(ctx context.Context) iter.Seq2[wire.Damage, error]
	Uploads(ctx context.Context) iter.Seq2[wire.OpenUpload, error]
	Actions(ctx context.Context) iter.Seq2[wire.Action, error]
}

// Running administers the nodes that run and their background tasks.
type Running interface {
	Tasks(ctx context.Context) ([]wire.Task, error)
	StartTask(ctx context.Context, name string) (wire.Task, error)
	PauseTask(ctx context.Context, name string) (wire.Task, error)
	ResumeTask(ctx context.Context, name string) (wire.Task, error)
	Nodes(ctx context.Context) ([]wire.Node, error)
}

// Places administers who may read and list at places, and blocks.
type Places interface {
	Places(ctx context.Context, account string) iter.Seq2[wire.Place, error]
	Place(ctx context.Context, of client.PlaceName) (wire.PlaceRule, error)
	ChangePlace(ctx context.Context, of client.PlaceName, change wire.ChangePlace) (wire.Place, error)
}

// Keepings administers which versions accounts keep.
type Keepings interface {
	Versions(ctx context.Context) iter.Seq2[wire.Keeping, error]
	AccountVersions(ctx context.Context, account string) (wire.Keeping, error)
	SetVersions(ctx context.Context, account string, set wire.SetKeeping, o client.UpdateOptions) (wire.Keeping, error)
}

// Rules administers the rules by which accounts lose blobs.
type Rules interface {
	Rules(ctx context.Context) iter.Seq2[wire.Rules, error]
	AccountRules(ctx context.Context, account string) (wire.Rules, error)
	SetRules(ctx context.Context, account string, rules []wire.Rule, o client.UpdateOptions) (wire.Rules, error)
	PreviewRules(ctx context.Context, account string, rules []wire.Rule) iter.Seq2[wire.RulesPreview, error]
}

// Flags name the instance that a command administers: the flags of a server, or of a database.
type Flags struct {
	settings.MetaFlags `embed:""`
	Choice
	cli.OutputFlags
}

// With calls fn with the instance.
func (f *Flags) With(ctx context.Context, console *cli.Console, o Options, fn func(context.Context, Instance) error) error {
	database, err := f.Database()
	switch {
	case err != nil:
		return err
	case !database && f.server != "":
		return f.WithServer(ctx, console, fn)
	case f.KeyFile != "" || f.CAFile != "":
		return cli.Usagef("--key-file and --ca-file are for a server: name it with --url or --context")
	case o.S3 != nil:
		if o.Service.S3, err = o.S3.Box(); err != nil {
			return err
		}
	}
	fresh := o.Create && f.Meta == "" && !datadir.HasDatabase(f.Data)
	err = f.WithMeta(ctx, o.Create, func(ctx context.Context, store whole.Database) error {
		if fresh {
			if err := f.Remark(console, fmt.Sprintf("There was no data in the folder %s: created a new instance there.", settings.Absolute(f.Data))); err != nil {
				return err
			}
		}
		if o.Reads != "" {
			o.Service.Places = access.NewPlaces(store, access.Reads(o.Reads), 0)
		}
		return fn(ctx, open(store, o.Service))
	})
	if !database && cli.AnyOf(err, storage.ErrNoInstance, datadir.ErrNoInstance) {
		return fmt.Errorf("%w; --url or --context names a server", err)
	}
	return err
}

// PrintAll prints an instance's list as a table.
func PrintAll[E any](ctx context.Context, console *cli.Console, f *Flags, o Options, heading string, list func(Instance, context.Context) iter.Seq2[E, error], cells func(E) []string) error {
	return f.With(ctx, console, o, func(ctx context.Context, on Instance) error {
		return cli.PrintAll(f.Table(console, heading), list(on, ctx), cells)
	})
}

// Options are for an instance whose database is opened.
type Options struct {
	Create  bool     // create the database where there is none
	S3      *S3Flags // for a command that makes S3 secrets; nil: it makes none
	Service admin.Options
	Reads   string // the instance's --reads; "": public
}

// Choice chooses between a server and a database. A command that embeds it has the flags of both.
type Choice struct {
	cli.ServerFlags

	server   string // the first flag or variable that names a server; "": there is none
	database string // the first one that names a database
	settings string // the first flag of a setting, which a server has of its own
}

// AfterApply notes which flags and variables name the instance. kong calls it.
func (c *Choice) AfterApply(ctx *kong.Context, read *settings.File) error {
	first := func(variables bool, names ...string) string {
		for _, name := range names {
			flag := settings.FlagOf(ctx.Selected(), name)
			if flag == nil {
				continue
			}
			switch source := settings.SourceOf(ctx, flag, read); {
			case source == settings.SourceFlag:
				return "--" + name
			case variables && strings.HasPrefix(source, "SLUICE_"):
				return source
			}
		}
		return ""
	}
	c.server, c.database, c.settings = first(false, "url", "context"), first(false, "data", "meta", "config"), first(false, "s3-secret-key-file", "key-limits", "reads")
	if c.server != "" {
		return nil
	}
	// A node's environment, as in a container, names both: its database, and its address.
	if c.database = first(true, "data", "meta", "config"); c.database != "" {
		return nil
	}
	for _, name := range []string{contexts.EnvURL, contexts.EnvContext} {
		if c.server == "" && os.Getenv(name) != "" {
			c.server = name
		}
	}
	return nil
}

// Named reports whether a flag names a server.
func (c *Choice) Named() bool { return strings.HasPrefix(c.server, "--") }

// ByServer reports whether a flag or a variable names a server.
func (c *Choice) ByServer() bool { return c.server != "" }

// Database reports whether a flag or a variable names a database. If flags name both, it returns an
// error, since the one that is meant cannot be known.
func (c *Choice) Database() (bool, error) {
	switch {
	case c.server != "" && c.database != "":
		return false, cli.Usagef("%s names a server, and %s a database: name one of them", c.server, c.database)
	case c.server != "" && c.settings != "":
		return false, cli.Usagef("%s is for a database: a server has its own", c.settings)
	}
	return c.database != "", nil
}

// WithServer calls fn with the server.
func (c *Choice) WithServer(ctx context.Context, console *cli.Console, fn func(context.Context, Instance) error) error {
	on, err := c.Client(console, "")
	if err != nil {
		return err
	}
	return fn(ctx, on.Admin())
}

// Explain returns err, or an error with this text if an instance has no such key, group, task or
// alias.
func Explain(err error, format string, args ...any) error {
	e, reported := errors.AsType[*client.Error](err)
	if errors.Is(err, admin.ErrNotFound) || reported && e.Code == wire.CodeNotFound {
		return cli.ExitWith(cli.ExitNotFound, fmt.Errorf(format, args...))
	}
	return err
}

// Changed reports whether a thing was changed in the meantime, or by a request whose response was
// lost.
func Changed(err error) bool { return cli.AnyOf(err, admin.ErrChanged, client.ErrPreconditionFailed) }
