// Package keys has the commands for API keys, groups of them, and the aliases of S3's buckets.
package keys

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/admin"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/settings"
	"sluice/database/whole"
	"sluice/internal/datadir"
	"sluice/internal/units"
)

// Key manages an instance's API keys, also while nodes run on it. Nodes
// apply a change within seconds.
type Key struct {
	Create keyCreate `cmd:"" help:"Create a key and print its secret, which cannot be shown again."`
	List   keyList   `cmd:"" aliases:"ls" help:"List all keys, including expired and revoked ones."`
	Show   keyShow   `cmd:"" help:"Show one key."`
	Update keyUpdate `cmd:"" help:"Change the grants, the label or the expiry of a key."`
	Revoke keyRevoke `cmd:"" help:"Revoke a key permanently."`
	Reseal keyReseal `cmd:"" help:"Seal all S3 secrets again with the first key of --s3-secret-key-file."`
}

type keyCreate struct {
	keyFlags

	grantFlags `embed:""`
	Group      string     `placeholder:"NAME" help:"Group of keys that share limits. Default: a group of its own."`
	Label      string     `placeholder:"TEXT" help:"Description of the key."`
	Expires    units.When `placeholder:"WHEN" help:"Time at which the key expires, such as 2030-01-31 or 2030-01-31T12:00:00Z, or a duration from now, such as 30d or 720h. Default: never."`

	S3      bool `name:"s3" help:"Give it an S3 secret, too, with which S3 clients sign."`
	s3Flags `embed:""`

	// Limits that are not set have the service's default. A group's first key
	// sets the limits of its group.
	Limits settings.LimitFlags `embed:"" set:"whose=the keys of the group"`
}

// Validate reports all errors.
func (c *keyCreate) Validate() error {
	_, err := c.key()
	return err
}

// key returns the key that the flags describe, without its expiry.
func (c *keyCreate) key() (access.NewKey, error) {
	grants, err := c.grants()
	return access.NewKey{Label: c.Label, Grants: grants, Group: c.Group, Limits: c.Limits.Limits()}, err
}

// Run creates the key. It prints the secrets alone to stdout, for scripts, and the
// rest to stderr.
func (c *keyCreate) Run(ctx context.Context, console *cli.Console) error {
	wanted, err := c.key()
	if err != nil {
		return err
	}
	if c.S3 {
		if wanted.S3, err = c.box(); err != nil {
			return err
		}
	}
	fresh := c.Meta == "" && !datadir.HasDatabase(c.Data)
	return c.WithMeta(ctx, true, func(ctx context.Context, store whole.Database) error {
		if fresh {
			if err := c.Remark(console, fmt.Sprintf("There was no data in the folder %s: created a new instance there.", settings.Absolute(c.Data))); err != nil {
				return err
			}
		}
		if wanted.Expires, err = c.Expires.From(store.Now()); err != nil { // by the clock that the nodes use
			return cli.ExitWith(cli.ExitUsage, fmt.Errorf("--expires: %w", err))
		}
		issued, err := admin.New(store, admin.Options{}).IssueKey(ctx, operator(), wanted, nil)
		if errors.Is(err, admin.ErrConflict) {
			return fmt.Errorf("the group %s has other limits: set the same limits, or none", printable(c.Group))
		}
		if err != nil {
			return err
		}
		if err := c.writeIssued(console, issued); err != nil {
			return fmt.Errorf("the key %s was created, but could not be printed; revoke it: %w", issued.Key.ID, err)
		}
		return nil
	})
}

type keyList struct{ keyFlags }

// keyPage is the number of keys that are read at a time.
const keyPage = 1000

// Run prints all keys, ordered by id.
func (c *keyList) Run(ctx context.Context, console *cli.Console) error {
	return c.WithMeta(ctx, false, func(ctx context.Context, store whole.Database) error {
		table := c.Table(console, "ID\tSTATE\tSCOPES\tACCOUNTS\tGROUP\tEXPIRES\tLABEL")
		for after := ""; ; {
			page, err := store.ListKeys(ctx, after, keyPage)
			if err != nil {
				return err
			}
			for _, key := range page {
				after = key.ID
				if err := table.Row(newPrintedKey(access.Issued{Key: key}), keyCells(key)...); err != nil {
					return err
				}
			}
			if len(page) == 0 {
				return table.Flush()
			}
		}
	})
}

type keyShow struct{ oneKey }

// Run prints the key.
func (c *keyShow) Run(ctx context.Context, console *cli.Console) error {
	return c.print(ctx, console, func(ctx context.Context, store whole.Database, id string) (keys.Key, error) {
		return store.Key(ctx, id)
	})
}

type keyRevoke struct{ oneKey }

// Run revokes a key and prints it.
func (c *keyRevoke) Run(ctx context.Context, console *cli.Console) error {
	return c.print(ctx, console, func(ctx context.Context, store whole.Database, id string) (keys.Key, error) {
		if _, err := admin.New(store, admin.Options{}).RevokeKey(ctx, operator(), id, true); err != nil {
			return keys.Key{}, err
		}
		return store.Key(ctx, id)
	})
}

type keyReseal struct {
	keyFlags
	s3Flags `embed:""`
}

// Run seals the S3 secrets again that another than the first key has sealed. It has changed those
// that could be opened, even if it returns an error about the rest.
func (c *keyReseal) Run(ctx context.Context, console *cli.Console) error {
	box, err := c.box()
	if err != nil {
		return err
	}
	return c.WithMeta(ctx, false, func(ctx context.Context, store whole.Database) error {
		n, err := access.ResealS3Secrets(ctx, store, box)
		return errors.Join(c.Remark(console, fmt.Sprintf("S3 secrets that were sealed again: %d.", n)), err)
	})
}

type keyUpdate struct {
	oneKey

	grantFlags `embed:""`
	S3         bool `name:"s3" xor:"s3" help:"Give it a new S3 secret, with which S3 clients sign. One that it has is no longer valid."`
	NoS3       bool `name:"no-s3" xor:"s3" help:"Remove its S3 secret."`
	s3Flags    `embed:""`
	Label      *string   `placeholder:"TEXT" help:"Description of the key."`
	Expires    newExpiry `placeholder:"WHEN" help:"Time at which the key expires, such as 2030-01-31 or 2030-01-31T12:00:00Z, a duration from now, such as 30d or 720h, or never."`
}

// newExpiry is a new time of expiry.
type newExpiry struct {
	set  bool // reports whether it is to be changed
	when units.When
}

// UnmarshalText parses a time as units.ParseWhen does; "never" is no expiry.
func (e *newExpiry) UnmarshalText(text []byte) (err error) {
	*e = newExpiry{set: true}
	if string(text) != "never" {
		e.when, err = units.ParseWhen(string(text))
	}
	return err
}

// Validate reports all errors.
func (c *keyUpdate) Validate() error {
	_, err := c.change()
	if !c.any() && c.Label == nil && !c.Expires.set && !c.S3 && !c.NoS3 {
		err = errors.Join(err, errors.New("nothing to change: set --scopes, --accounts, --all-accounts, --prefix, --grant, --label, --expires, --s3 or --no-s3"))
	}
	return err
}

// Run changes the key and prints it.
func (c *keyUpdate) Run(ctx context.Context, console *cli.Console) error {
	change, err := c.change()
	if err != nil {
		return err
	}
	change.Label, change.NoS3 = c.Label, c.NoS3
	if c.S3 {
		if change.S3, err = c.box(); err != nil {
			return err
		}
	}
	return c.printIssued(ctx, console, func(ctx context.Context, store whole.Database, id string) (access.Issued, error) {
		if c.Expires.set {
			expires, err := c.Expires.when.From(store.Now()) // by the clock that the nodes use
			if err != nil {
				return access.Issued{}, cli.ExitWith(cli.ExitUsage, fmt.Errorf("--expires: %w", err))
			}
			change.Expires = new(time.Time)
			*change.Expires = expires
		}
		return admin.New(store, admin.Options{}).ChangeKey(ctx, operator(), id, change, nil, true)
	})
}
