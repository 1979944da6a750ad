package blobs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sluice/internal/units"
	"strings"
	"sync/atomic"
	"time"

	"sluice/client"
	"sluice/client/folder"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/payments"
)

// transferFlags choose how files and blobs are transferred. Commands that transfer several embed
// them.
type transferFlags struct {
	Jobs    *int        `short:"j" env:"-" group:"Transfers:" placeholder:"NUMBER" help:"How many files or blobs are transferred at a time. Default: 32 small ones that are sent or copied, or 8 that are large or received."`
	Include includeRule `env:"-" group:"Transfers:" placeholder:"PATTERN" help:"With folders and prefixes: names to transfer although a later --exclude matches them. The flag may be repeated."`
	Exclude excludeRule `env:"-" group:"Transfers:" placeholder:"PATTERN" help:"With folders and prefixes: names to leave out, such as '*.tmp', 'cache/' or /top. The flag may be repeated."`

	Preserve bool `short:"p" env:"-" group:"Transfers:" help:"Keep the times of modification and the permissions of files in the metadata of blobs (mtime and mode, as rclone does), and restore them."`

	cli.RateFlag `embed:"" group:"Transfers:"`
}

// maxJobs bounds --jobs: each may have several connections.
const maxJobs = 256

// set sets options of a batch. The flags for names are an error unless the command has folders or
// prefixes.
func (f *transferFlags) set(o *folder.Options, folders bool) error {
	o.Preserve = f.Preserve
	if f.Jobs != nil {
		if *f.Jobs < 1 || *f.Jobs > maxJobs {
			return cli.Usagef("--jobs %d: must be from 1 to %d", *f.Jobs, maxJobs)
		}
		o.Concurrency = *f.Jobs
	}
	rules := slices.Concat(f.Include.rules, f.Exclude.rules)
	if len(rules) == 0 {
		return nil
	}
	if !folders {
		return cli.Usagef("--include and --exclude require -r: they choose among the names in a folder or below a prefix")
	}
	slices.SortFunc(rules, func(a, b orderedRule) int { return int(a.order - b.order) })
	var ordered []folder.Rule
	for _, r := range rules {
		ordered = append(ordered, r.Rule)
	}
	filter, err := folder.NewFilter(ordered)
	if err != nil {
		return cli.ExitWith(cli.ExitUsage, err)
	}
	o.Filter = filter
	return nil
}

// transfer is a command that transfers files and blobs.
type transfer struct {
	console *cli.Console
	server  *cli.ServerFlags
	output  cli.OutputFlags
	writes  *writeFlags         // nil: it stores no blobs
	locks   *lockFlags          // nil: it locks none
	reads   *payments.ReadFlags // nil: it reads no blobs
	flags   *transferFlags
	folders bool // it may have folders or prefixes
}

// batch returns the command's batch, for several sources, given the first.
func (t transfer) batch(ctx context.Context, o folder.Options, source, target operand.Operand) (_ *batch, err error) {
	if t.writes != nil {
		if target.Remote == nil && (t.writes.set() || t.locks != nil && t.locks.set()) {
			return nil, cli.Usagef("the target is local: --expires and the other flags for stored blobs have no meaning")
		}
		if o.Put, err = t.writes.options(); err != nil {
			return nil, err
		}
	}
	if t.locks != nil {
		if o.Put.Lock, err = t.locks.lock(ctx, t.console, o.DryRun); err != nil {
			return nil, err
		}
	}
	from, to, err := clientsOf(t.console, t.server, t.flags.BothWays(), source, target)
	if err != nil {
		return nil, err
	}
	reads := &payments.PaidReads{}
	if t.reads != nil {
		if reads, err = t.reads.Reads(ctx, t.console, from); err != nil {
			return nil, err
		}
	}
	o.Get, o.StateDir = reads.Downloads(), copyStateDir()
	if err := t.flags.set(&o, t.folders); err != nil {
		return nil, err
	}
	b := newBatch(t.console, t.output, o)
	b.from, b.to, b.reads, b.put = from, to, reads, o.Put
	return b, nil
}

// clientsOf returns clients for the servers of two operands, or one client if they have the same
// context, with options that they share. For a local one it returns nil.
func clientsOf(console *cli.Console, f *cli.ServerFlags, o client.Options, source, target operand.Operand) (from, to *client.Client, err error) {
	if source.Remote != nil {
		if from, err = f.ClientWith(console, source.Remote.Context, o); err != nil {
			return nil, nil, err
		}
	}
	if source.Remote != nil && target.Remote != nil && source.Remote.Context == target.Remote.Context {
		return from, from, nil
	}
	if target.Remote != nil {
		if to, err = f.ClientWith(console, target.Remote.Context, o); err != nil {
			return nil, nil, err
		}
	}
	return from, to, nil
}

// orderedRule is a rule with its place among all on the command line.
type orderedRule struct {
	folder.Rule
	order int64
}

// ruleOrder is the last rule's place. Two flags share their order, which kong does not keep.
var ruleOrder atomic.Int64

type (
	includeRule struct{ rules []orderedRule }
	excludeRule struct{ rules []orderedRule }
)

// UnmarshalText adds a rule.
func (r *includeRule) UnmarshalText(text []byte) error {
	r.rules = append(r.rules, orderedRule{folder.Rule{Pattern: string(text)}, ruleOrder.Add(1)})
	return nil
}

// UnmarshalText adds a rule.
func (r *excludeRule) UnmarshalText(text []byte) error {
	r.rules = append(r.rules, orderedRule{folder.Rule{Pattern: string(text), Exclude: true}, ruleOrder.Add(1)})
	return nil
}

// writeFlags describe the blobs that a command stores.
type writeFlags struct {
	Expires            units.When   `short:"e" env:"-" group:"Stored blobs:" placeholder:"WHEN" help:"When they expire: 7d, 'in 7 days', 2030-01-31, 2030-01-31T12:00:00Z or Unix seconds. Default: never."`
	ContentType        string       `env:"-" group:"Stored blobs:" placeholder:"TYPE" help:"Their content type. Default: guessed by name and content."`
	CacheControl       string       `env:"-" group:"Stored blobs:" placeholder:"VALUE" help:"Their Cache-Control, for public reads."`
	ContentDisposition string       `env:"-" group:"Stored blobs:" placeholder:"VALUE" help:"Their Content-Disposition."`
	ContentLanguage    string       `env:"-" group:"Stored blobs:" placeholder:"VALUE" help:"Their Content-Language."`
	Meta               metadata     `env:"-" group:"Stored blobs:" placeholder:"NAME=VALUE" help:"A header Blob-Meta-NAME of them. The flag may be repeated."`
	CreateOnly         bool         `env:"-" group:"Stored blobs:" help:"Store only blobs that do not exist: one that does is left as it is, and is an error unless it has the same content."`
	PartSize           cli.PartSize `env:"-" group:"Stored blobs:" placeholder:"SIZE" help:"Size of the parts in which large files are sent, at most 5GiB. Default: 16MiB, more if there would be too many."`
}

// metadata are custom headers by their names.
type metadata map[string]string

// UnmarshalText adds a header, which must not be there in another case of letters, either.
func (m *metadata) UnmarshalText(text []byte) error {
	name, value, found := strings.Cut(string(text), "=")
	if !found {
		return fmt.Errorf("want NAME=VALUE, not %q", text)
	}
	for other := range *m {
		if strings.EqualFold(name, other) {
			return fmt.Errorf("%s is set twice", name)
		}
	}
	if *m == nil {
		*m = metadata{}
	}
	(*m)[name] = value
	return nil
}

// options returns the options for writing now. They have no content type unless the flag is set.
func (f *writeFlags) options() (client.PutOptions, error) {
	expires, err := f.Expires.From(time.Now())
	if err != nil {
		return client.PutOptions{}, cli.Usagef("--expires: %w", err)
	}
	return client.PutOptions{
		Expires: expires, ContentType: f.ContentType, CacheControl: f.CacheControl, ContentDisposition: f.ContentDisposition,
		ContentLanguage: f.ContentLanguage, Metadata: f.Meta, PartSize: int64(f.PartSize), IfAbsent: f.CreateOnly,
	}, nil
}

// set reports whether a flag describes the blobs.
func (f *writeFlags) set() bool {
	return f.Expires != units.When{} || f.ContentType+f.CacheControl+f.ContentDisposition+f.ContentLanguage != "" || f.Meta != nil || f.PartSize != 0 || f.CreateOnly
}

// copyStateDir returns the folder in which interrupted copies are remembered: it is in the user's
// folder for caches. It returns "" if there is no such folder.
func copyStateDir() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "sluice", "copies")
}
