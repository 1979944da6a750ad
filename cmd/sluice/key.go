package main

import (
	"context"
	"errors"
	"fmt"

	"sluice/access"
	"sluice/access/keys"
	"sluice/database/whole"
	"sluice/internal/datadir"
	"sluice/internal/units"
)

// keyCommand manages an instance's API keys, also while nodes run on it. Nodes
// apply a change within seconds.
type keyCommand struct {
	Create keyCreate `cmd:"" help:"Create a key and print its secret, which cannot be shown again."`
	List   keyList   `cmd:"" aliases:"ls" help:"List all keys, including expired and revoked ones."`
	Show   keyShow   `cmd:"" help:"Show one key."`
	Update keyUpdate `cmd:"" help:"Change the scopes, the accounts, the label or the expiry of a key."`
	Revoke keyRevoke `cmd:"" help:"Revoke a key permanently."`
	Reseal keyReseal `cmd:"" help:"Seal all S3 secrets again with the first key of --s3-secret-key-file."`
}

type keyCreate struct {
	keyFlags

	Scopes      []string   `placeholder:"SCOPE" help:"Operations that the key allows: read, write, channels, or admin for all of them."`
	Accounts    []string   `placeholder:"ACCOUNT" help:"Accounts on which it allows them."`
	AllAccounts bool       `help:"Allow them on all accounts."`
	Group       string     `placeholder:"NAME" help:"Group of keys that share limits. Default: a group of its own."`
	Label       string     `placeholder:"TEXT" help:"Description of the key."`
	Expires     units.When `placeholder:"WHEN" help:"Time at which the key expires, such as 2030-01-31 or 2030-01-31T12:00:00Z, or a duration from now, such as 30d or 720h. Default: never."`

	S3      bool `name:"s3" help:"Give it an S3 secret, too, with which S3 clients sign."`
	s3Flags `embed:""`

	// Limits that are not set have the service's default. A group's first key
	// sets the limits of its group.
	Limits limitFlags `embed:"" set:"whose=the keys of the group"`
}

// Validate reports all errors.
func (c *keyCreate) Validate() error {
	_, err := c.key()
	return err
}

// key returns the key that the flags describe, without its expiry.
func (c *keyCreate) key() (access.NewKey, error) {
	var errs []error
	scopes, err := access.ParseScopes(c.Scopes)
	if err != nil {
		errs = append(errs, fmt.Errorf("--scopes: %w", err))
	}
	if c.AllAccounts == (len(c.Accounts) > 0) {
		errs = append(errs, errors.New("--accounts or --all-accounts: exactly one of the two is required"))
	}
	accounts, err := parseAccounts(c.Accounts)
	errs = append(errs, err)
	return access.NewKey{
		Label:    c.Label,
		Scopes:   scopes,
		Accounts: accounts,
		Group:    c.Group,
		Limits:   c.Limits.limits(),
	}, errors.Join(errs...)
}

// Help returns examples.
func (keyCreate) Help() string {
	return examples("sluice key create --scopes read,write --accounts team-a --expires 30d", "sluice key create --scopes write --accounts team-a --s3 --config my.yaml", "sluice key create --scopes admin --all-accounts --label operator")
}

// Run creates the key. It prints the secrets alone to stdout, for scripts, and the
// rest to stderr.
func (c *keyCreate) Run(ctx context.Context, console *console) error {
	wanted, err := c.key()
	if err != nil {
		return err
	}
	if c.S3 {
		if wanted.S3, err = c.box(); err != nil {
			return err
		}
	}
	fresh := !c.location().Shared() && !datadir.HasDatabase(c.Data)
	return c.withKeys(ctx, true, func(ctx context.Context, store whole.Database) error {
		if fresh {
			if err := c.remark(console, fmt.Sprintf("There was no data in the folder %s: created a new instance there.", absolute(c.Data))); err != nil {
				return err
			}
		}
		if wanted.Expires, err = c.Expires.From(store.Now()); err != nil { // by the clock that the nodes use
			return exitWith(exitUsage, fmt.Errorf("--expires: %w", err))
		}
		issued, err := access.Create(ctx, store, wanted)
		if errors.Is(err, keys.ErrGroupLimits) {
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

// Help returns examples.
func (keyList) Help() string { return examples("sluice key list", "sluice key list --json") }

// Run prints all keys, ordered by id.
func (c *keyList) Run(ctx context.Context, console *console) error {
	return c.withKeys(ctx, false, func(ctx context.Context, store whole.Database) error {
		table := newKeyTable(console.out)
		for after := ""; ; {
			page, err := store.ListKeys(ctx, after, keyPage)
			if err != nil {
				return err
			}
			for _, key := range page {
				after = key.ID
				write := table.add
				if c.JSON {
					write = func(k keys.Key) error { return writeKeyJSON(console.out, access.Issued{Key: k}) }
				}
				if err := write(key); err != nil {
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

// Help returns examples.
func (keyShow) Help() string { return examples("sluice key show ID") }

// Run prints the key.
func (c *keyShow) Run(ctx context.Context, console *console) error {
	return c.print(ctx, console, func(ctx context.Context, store whole.Database, id string) (keys.Key, error) {
		return store.Key(ctx, id)
	})
}

type keyRevoke struct{ oneKey }

// Help returns examples.
func (keyRevoke) Help() string { return examples("sluice key revoke ID") }

// Run revokes a key and prints it.
func (c *keyRevoke) Run(ctx context.Context, console *console) error {
	return c.print(ctx, console, func(ctx context.Context, store whole.Database, id string) (keys.Key, error) {
		return store.RevokeKey(ctx, id)
	})
}

type keyReseal struct {
	keyFlags
	s3Flags `embed:""`
}

// Help returns examples.
func (keyReseal) Help() string { return examples("sluice key reseal --s3-secret-key-file ./s3.key") }

// Run seals the S3 secrets again that another than the first key has sealed. It has changed those
// that could be opened, even if it returns an error about the rest.
func (c *keyReseal) Run(ctx context.Context, console *console) error {
	box, err := c.box()
	if err != nil {
		return err
	}
	return c.withKeys(ctx, false, func(ctx context.Context, store whole.Database) error {
		n, err := access.ResealS3Secrets(ctx, store, box)
		return errors.Join(c.remark(console, fmt.Sprintf("S3 secrets that were sealed again: %d.", n)), err)
	})
}
