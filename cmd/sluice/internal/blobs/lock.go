package blobs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"sluice/client"
	"sluice/client/folder"
	"sluice/cmd/sluice/internal/cli"
	"sluice/internal/units"
)

// Lock locks versions of blobs.
type Lock struct {
	Blobs []cli.RemoteOperand `arg:"" name:"blob" help:"ACCOUNT/NAME, or ACCOUNT/PREFIX/ with -r. Several are possible."`

	Recursive bool `short:"r" env:"-" help:"Lock all blobs below the prefix."`
	versionFlag
	Until  units.When `env:"-" aliases:"for" xor:"until" placeholder:"WHEN" help:"Keep the version until then: 30d, 2030-01-31 or 2030-01-31T12:00:00Z."`
	End    bool       `env:"-" xor:"until" help:"End the retention, which in the mode governance needs --bypass."`
	Mode   string     `env:"-" enum:"governance,compliance" default:"governance" help:"Who may end it early: keys with the scope bypass (governance), or nobody (compliance)."`
	Hold   *bool      `env:"-" negatable:"" help:"Set a legal hold, which keeps the version until --no-hold."`
	Bypass bool       `env:"-" help:"Shorten or end a retention in the mode governance, which is recorded."`
	Yes    bool       `short:"y" env:"-" help:"Do not ask before a lock in the mode compliance."`
	DryRun bool       `short:"n" env:"-" help:"Print the changes that would be made, and make none."`

	cli.ServerFlags
	cli.OutputFlags
}

// Run changes the locks.
func (c *Lock) Run(ctx context.Context, console *cli.Console) error {
	if c.Until == (units.When{}) && !c.End && c.Hold == nil {
		return cli.Usagef("nothing to change: set --until, --end, --hold or --no-hold; sluice stat shows a lock")
	}
	if err := errors.Join(c.check(len(c.Blobs), c.Recursive), onlyBelow(c.Blobs, c.Recursive, "lock")); err != nil {
		return err
	}
	until, err := c.Until.From(time.Now())
	if err != nil {
		return cli.Usagef("--until: %w", err)
	}
	change := client.LockOptions{Until: until, End: c.End, Hold: c.Hold, Bypass: c.Bypass}
	if !until.IsZero() {
		change.Mode = c.Mode
	}
	on, err := c.ClientOf(console, c.Blobs...)
	if err != nil {
		return err
	}
	if err := confirmLock(ctx, console, client.Lock{Mode: change.Mode, Until: until}, c.Yes || c.DryRun); err != nil {
		return err
	}
	b := newBatch(console, c.OutputFlags, folder.Options{DryRun: c.DryRun})
	b.ctx, b.several = ctx, len(c.Blobs) > 1 || c.Recursive
	items := belowAll{on: on, prefixes: c.Blobs}
	if c.Recursive {
		err = items.check(ctx, b)
	}
	if err == nil {
		b.sum, _ = b.LockListed(ctx, c.items(ctx, b, &items), change) // show has seen its errors
	}
	return b.end(ctx, err)
}

// items returns the blobs to lock.
func (c *Lock) items(ctx context.Context, b *batch, below *belowAll) iter.Seq2[folder.Item, error] {
	if c.Recursive {
		return below.items(ctx)
	}
	return func(yield func(folder.Item, error) bool) {
		for _, of := range c.Blobs {
			item := b.item(below.on, of.Remote)
			if item.Version = c.Version; !yield(item, nil) {
				return
			}
		}
	}
}

// confirmLock asks before a lock that nobody can end, unless that is agreed.
func confirmLock(ctx context.Context, console *cli.Console, l client.Lock, agreed bool) error {
	if l.Mode != client.LockCompliance || agreed {
		return nil
	}
	return cli.Confirm(ctx, console, fmt.Sprintf("Lock until %s? Nobody can end it before, and the bytes count until then.", formatTime(l.Until)))
}

// lockFlags lock the blobs that a command stores.
type lockFlags struct {
	Until units.When `env:"-" group:"Locks of stored blobs:" aliases:"for" placeholder:"WHEN" help:"Keep the stored versions until then: 30d, 2030-01-31 or 2030-01-31T12:00:00Z. With -r, blobs that are there already are stored again."`
	Mode  string     `env:"-" group:"Locks of stored blobs:" enum:"governance,compliance" default:"governance" help:"Who may end the retention early: keys with the scope bypass (governance), or nobody (compliance)."`
	Hold  bool       `env:"-" group:"Locks of stored blobs:" help:"Set a legal hold, which keeps the versions until sluice lock --no-hold."`
	Yes   bool       `short:"y" env:"-" group:"Locks of stored blobs:" help:"Do not ask before locks in the mode compliance."`
}

// set reports whether they lock anything.
func (f *lockFlags) set() bool {
	return f.Hold || f.Until != units.When{} || f.Mode != client.LockGovernance
}

// lock returns the lock, after asking.
func (f *lockFlags) lock(ctx context.Context, console *cli.Console, dryRun bool) (l client.Lock, err error) {
	l.Hold = f.Hold
	if l.Until, err = f.Until.From(time.Now()); err != nil {
		return l, cli.Usagef("--until: %w", err)
	}
	switch {
	case !l.Until.IsZero():
		l.Mode = f.Mode
	case f.Mode != client.LockGovernance:
		return l, cli.Usagef("--mode %s needs --until", f.Mode)
	}
	return l, confirmLock(ctx, console, l, f.Yes || dryRun)
}
