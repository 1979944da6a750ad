package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"sluice/access"
	"sluice/blob"
	"sluice/internal/datadir"
	"sluice/internal/storage"
	"sluice/metastore"
)

// keyCommand handles the API keys of a data folder, whether a server runs on it
// or not. A server learns of a change within seconds.
type keyCommand struct {
	Create keyCreate `cmd:"" help:"Make a key and print its secret, which nothing can tell again."`
	List   keyList   `cmd:"" help:"List the keys, those that have ended included."`
	Show   keyShow   `cmd:"" help:"Tell of one key."`
	Revoke keyRevoke `cmd:"" help:"End a key for good."`
}

// keyFlags are those of every command for keys.
type keyFlags struct {
	Config    kong.ConfigFlag `placeholder:"FILE" help:"Configuration file of serve."`
	metaFlags `embed:""`
	JSON      bool `name:"json" help:"Print JSON, an object a line."`
}

// on runs fn on the metadata of the data folder.
func (f *keyFlags) on(create bool, fn func(ctx context.Context, keys access.KeyStore) error) error {
	ctx := context.Background()
	stores, err := storage.OpenMeta(ctx, f.location(), create)
	if err != nil {
		return err
	}
	return errors.Join(fn(ctx, stores.Meta), stores.Close())
}

type keyCreate struct {
	keyFlags

	Scopes      []string `placeholder:"SCOPE,..." help:"What it may do: read, write, channels, or admin, which is all of them."`
	Accounts    []string `placeholder:"ACCOUNT,..." help:"The accounts for which it may do so."`
	AllAccounts bool     `help:"It may do so for all accounts."`
	Group       string   `placeholder:"NAME" help:"The keys that it shares limits with; by default it has its own."`
	Label       string   `placeholder:"TEXT" help:"What you call it."`
	Expires     expiry   `placeholder:"WHEN" help:"When it ends: a time from now, such as 720h, or 2030-01-31T00:00:00Z; by default never."`

	// Of the limits, those that are not given are what the service has for a
	// default. The first key of a group gives the group its limits.
	Limits limitFlags `embed:"" set:"whose=the keys of its group"`
}

// Validate reports everything that is wrong, at once.
func (c *keyCreate) Validate() error {
	_, err := c.key()
	return err
}

// key gives the key that is asked for.
func (c *keyCreate) key() (access.NewKey, error) {
	var errs []error
	scopes, err := access.ParseScopes(c.Scopes)
	if err != nil {
		errs = append(errs, fmt.Errorf("--scopes: %w", err))
	}
	if c.AllAccounts == (len(c.Accounts) > 0) {
		errs = append(errs, errors.New("--accounts ACCOUNT,... or --all-accounts: one of the two must be given"))
	}
	var accounts []string
	for _, text := range c.Accounts {
		account, err := blob.ParseAccount(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--accounts: %w", err))
		}
		accounts = append(accounts, account)
	}
	return access.NewKey{
		Label:    c.Label,
		Scopes:   scopes,
		Accounts: accounts,
		Group:    c.Group,
		Limits:   c.Limits.limits(),
	}, errors.Join(errs...)
}

// Run makes the key. The secret is all that goes to the output, so that a
// script can take it from there.
func (c *keyCreate) Run(console *console) error {
	wanted, err := c.key()
	if err != nil {
		return err
	}
	fresh := !c.location().Shared() && !datadir.HasDatabase(c.Data)
	return c.on(true, func(ctx context.Context, keys access.KeyStore) error {
		if fresh {
			if err := printLine(console.err, fmt.Sprintf("There was no data in the folder %s: a new instance was made there.", absolute(c.Data))); err != nil {
				return err
			}
		}
		if wanted.Expires, err = c.Expires.from(keys.Now()); err != nil { // by the time that the nodes go by
			return err
		}
		key, secret, err := access.Create(ctx, keys, wanted)
		if errors.Is(err, metastore.ErrGroupLimits) {
			return fmt.Errorf("the group %s has other limits: give the same, or none", printable(c.Group))
		}
		if err != nil {
			return err
		}
		if c.JSON {
			err = writeKeyJSON(console.out, key, secret)
		} else {
			err = errors.Join(printLine(console.out, secret), printLine(console.err, "This is the only time that the secret is shown."), writeKey(console.err, key))
		}
		if err != nil {
			return fmt.Errorf("the key %s was made, but could not be printed; revoke it: %w", key.ID, err)
		}
		return nil
	})
}

// absolute returns the absolute path of a folder if it is known, and path otherwise.
func absolute(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		return absolute
	}
	return path
}

type keyList struct{ keyFlags }

// keyPage is how many keys are read at a time.
const keyPage = 1000

// Run prints all keys, by id.
func (c *keyList) Run(console *console) error {
	return c.on(false, func(ctx context.Context, keys access.KeyStore) error {
		table := newKeyTable(console.out)
		for after := ""; ; {
			page, err := keys.ListKeys(ctx, after, keyPage)
			if err != nil {
				return err
			}
			for _, key := range page {
				after = key.ID
				write := table.add
				if c.JSON {
					write = func(k metastore.Key) error { return writeKeyJSON(console.out, k, "") }
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

// oneKey names the key that a command is about.
type oneKey struct {
	keyFlags

	ID string `arg:"" placeholder:"ID" help:"The id of the key."`
}

// print runs fn and prints the key that it gives. Whoever has the whole
// credential at hand may give that; what was given is in no message.
func (c *oneKey) print(console *console, fn func(ctx context.Context, keys access.KeyStore, id string) (metastore.Key, error)) error {
	return c.on(false, func(ctx context.Context, keys access.KeyStore) error {
		key, err := fn(ctx, keys, idOf(c.ID))
		switch {
		case errors.Is(err, metastore.ErrNotFound):
			return fmt.Errorf("there is no such key: sluice key list shows them")
		case err != nil:
			return err
		case c.JSON:
			return writeKeyJSON(console.out, key, "")
		default:
			return writeKey(console.out, key)
		}
	})
}

// idOf gives the id of a key, of which the whole credential may be given.
func idOf(text string) string {
	rest, whole := strings.CutPrefix(text, "sluice_")
	if !whole {
		return text
	}
	id, _, _ := strings.Cut(rest, "_")
	return id
}

type keyShow struct{ oneKey }

// Run prints a key.
func (c *keyShow) Run(console *console) error {
	return c.print(console, func(ctx context.Context, keys access.KeyStore, id string) (metastore.Key, error) {
		return keys.Key(ctx, id)
	})
}

type keyRevoke struct{ oneKey }

// Run ends a key and prints it.
func (c *keyRevoke) Run(console *console) error {
	return c.print(console, func(ctx context.Context, keys access.KeyStore, id string) (metastore.Key, error) {
		return keys.RevokeKey(ctx, id)
	})
}

// expiry is when a key ends: at a time, or a while from now. The zero value is never.
type expiry struct {
	at    time.Time
	after time.Duration
}

// UnmarshalText reads a duration from now on, or a time.
func (e *expiry) UnmarshalText(text []byte) error {
	*e = expiry{}
	at, err := time.Parse(time.RFC3339, string(text))
	if err == nil {
		e.at = at
		return nil
	}
	if e.after, err = time.ParseDuration(string(text)); err != nil {
		return fmt.Errorf("want a time from now, such as 720h, or one such as 2030-01-31T00:00:00Z, not %q", text)
	}
	if e.after <= 0 {
		return fmt.Errorf("%s is over already", text)
	}
	return nil
}

// from returns the time that is meant when it is now; the zero time is never.
func (e *expiry) from(now time.Time) (time.Time, error) {
	switch {
	case e.after != 0:
		return now.Add(e.after), nil
	case !e.at.IsZero() && !e.at.After(now):
		return time.Time{}, fmt.Errorf("--expires: %s is over already", e.at.Format(time.RFC3339))
	default:
		return e.at, nil
	}
}
