// Package keys has the commands for API keys, groups of them, and the aliases of S3's buckets.
package keys

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/admin"
	"sluice/client"
	"sluice/cmd/sluice/internal/administration"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/settings"
	"sluice/database/whole"
	"sluice/internal/units"
	"sluice/wire"
)

// Key manages an instance's API keys, also while nodes run on it. Nodes
// apply a change within seconds.
type Key struct {
	Create keyCreate `cmd:"" help:"Create a key and print its secret, which cannot be shown again."`
	List   keyList   `cmd:"" aliases:"ls" help:"List all keys, including expired and revoked ones."`
	Show   keyShow   `cmd:"" help:"Show one key."`
	Update keyUpdate `cmd:"" help:"Change the grants, the label, the expiry or the secrets of a key."`
	Revoke keyRevoke `cmd:"" help:"Revoke a key permanently."`
	Reseal keyReseal `cmd:"" help:"Seal all S3 secrets again with the first key of --s3-secret-key-file."`
}

type keyCreate struct {
	administration.Flags

	grantFlags `embed:""`
	Group      string     `placeholder:"NAME" help:"Group of keys that share limits. Default: a group of its own, or on a server the group of an administrator of some accounts."`
	Label      string     `placeholder:"TEXT" help:"Description of the key."`
	Expires    units.When `placeholder:"WHEN" help:"Time at which the key expires, such as 2030-01-31 or 2030-01-31T12:00:00Z, or a duration from now, such as 30d or 720h. Default: never."`

	S3                     bool `name:"s3" help:"Give it an S3 secret, too, with which S3 clients sign."`
	administration.S3Flags `embed:""`

	// Limits that are not set have the service's default. A group's first key
	// sets the limits of its group.
	Limits settings.LimitFlags `embed:"" set:"whose=the keys of the group"`
}

// Validate reports all errors.
func (c *keyCreate) Validate() error {
	_, err := c.fresh()
	return err
}

// Run creates the key. It prints the secrets alone to stdout, for scripts, and the
// rest to stderr.
func (c *keyCreate) Run(ctx context.Context, console *cli.Console) error {
	grants, err := c.fresh()
	if err != nil {
		return err
	}
	o, limits := administration.Options{Create: true}, c.Limits.Limits()
	if c.S3 {
		o.S3 = &c.S3Flags
	}
	wanted := wire.CreateKey{Label: c.Label, Grants: grants, Group: c.Group, Limits: limits.Members(), S3: c.S3}
	return c.With(ctx, console, o, func(ctx context.Context, on administration.Instance) error {
		if wanted.Expires, err = expiryOf(ctx, on, c.Expires); err != nil {
			return err
		}
		issued, err := on.CreateKey(ctx, wanted, client.CreateKeyOptions{})
		if errors.Is(err, client.ErrSecretLost) { // nobody has it, so no other one is taken away
			id := issued.ID
			if issued, err = on.UpdateKey(ctx, id, wire.UpdateKey{NewSecret: true, NewS3Secret: c.S3}, client.UpdateOptions{}); err != nil {
				return fmt.Errorf("the key %s was created, but its secret was lost; sluice key update --new-secret %s replaces it, and sluice key revoke %s revokes the key: %w", id, id, id, err)
			}
		}
		switch {
		case errors.Is(err, client.ErrOutcomeUnknown):
			return fmt.Errorf("%w; sluice key list shows whether the key was created: revoke it then, since nobody has its secret", err)
		case err != nil:
			return err
		}
		if err := writeIssued(&c.Flags, console, issued); err != nil {
			return fmt.Errorf("the key %s was created, but could not be printed; revoke it: %w", issued.ID, err)
		}
		return nil
	})
}

// expiryOf returns a time by the instance's clock, as requests have it.
func expiryOf(ctx context.Context, on administration.Instance, when units.When) (string, error) {
	if when == (units.When{}) {
		return "", nil
	}
	now, err := on.Now(ctx)
	if err != nil {
		return "", err
	}
	at, err := when.From(now)
	if err != nil {
		return "", cli.Usagef("--expires: %w", err)
	}
	return at.UTC().Format(time.RFC3339Nano), nil
}

type keyList struct{ administration.Flags }

// Run prints all keys, ordered by id.
func (c *keyList) Run(ctx context.Context, console *cli.Console) error {
	return administration.PrintAll(ctx, console, &c.Flags, administration.Options{}, "ID\tSTATE\tSCOPES\tACCOUNTS\tGROUP\tEXPIRES\tLABEL", administration.Instance.Keys, keyCells)
}

type keyShow struct{ oneKey }

// Run prints the key.
func (c *keyShow) Run(ctx context.Context, console *cli.Console) error {
	return c.print(ctx, console, administration.Options{}, func(ctx context.Context, on administration.Instance, id string) (k wire.IssuedKey, err error) {
		k.Key, err = on.Key(ctx, id)
		return k, err
	})
}

type keyRevoke struct {
	oneKey

	Force bool `help:"Revoke it even if no other valid key administers all accounts. By a database it always is."`
}

// Run revokes a key and prints it.
func (c *keyRevoke) Run(ctx context.Context, console *cli.Console) error {
	return c.print(ctx, console, administration.Options{}, func(ctx context.Context, on administration.Instance, id string) (k wire.IssuedKey, err error) {
		k.Key, err = on.RevokeKey(ctx, id, c.Force)
		return k, err
	})
}

type keyReseal struct {
	settings.MetaFlags `embed:""`
	cli.OutputFlags
	administration.S3Flags `embed:""`
}

// Run seals the S3 secrets again that another than the first key has sealed. It has changed those
// that could be opened, even if it returns an error about the rest.
func (c *keyReseal) Run(ctx context.Context, console *cli.Console) error {
	box, err := c.Box()
	if err != nil {
		return err
	}
	return c.WithMeta(ctx, false, func(ctx context.Context, store whole.Database) error {
		n, err := admin.New(store, admin.Options{S3: box}).ResealS3Secrets(ctx, administration.Operator())
		result := struct {
			Sealed int `json:"sealed"`
		}{n}
		return errors.Join(c.Facts(console, result, [][2]string{{"sealed again", fmt.Sprint(n)}}), err)
	})
}

type keyUpdate struct {
	oneKey

	grantFlags             `embed:""`
	NewSecret              bool `help:"Give it a new secret, which is printed. The one that it has is no longer valid."`
	S3                     bool `name:"s3" xor:"s3" help:"Give it a new S3 secret, with which S3 clients sign. One that it has is no longer valid."`
	NoS3                   bool `name:"no-s3" xor:"s3" help:"Remove its S3 secret."`
	administration.S3Flags `embed:""`
	Label                  *string   `placeholder:"TEXT" help:"Description of the key."`
	Expires                newExpiry `placeholder:"WHEN" help:"Time at which the key expires, such as 2030-01-31 or 2030-01-31T12:00:00Z, a duration from now, such as 30d or 720h, or never."`
	Force                  bool      `help:"Change it even if no other valid key administers all accounts. By a database it always is."`
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
func (c *keyUpdate) Validate() (err error) {
	if c.any() {
		_, err = c.of([]wire.Grant{{}})
	}
	if !c.any() && c.Label == nil && !c.Expires.set && !c.NewSecret && !c.S3 && !c.NoS3 {
		err = errors.New("nothing to change: set --scopes, --accounts, --all-accounts, --prefix, --grant, --label, --expires, --new-secret, --s3 or --no-s3")
	}
	return err
}

// maxUpdates is how often a key is read and changed while others change it.
const maxUpdates = 10

// Run changes the key and prints it.
func (c *keyUpdate) Run(ctx context.Context, console *cli.Console) error {
	var o administration.Options
	if c.S3 {
		o.S3 = &c.S3Flags
	}
	return c.print(ctx, console, o, func(ctx context.Context, on administration.Instance, id string) (wire.IssuedKey, error) {
		change := wire.UpdateKey{Label: c.Label, NewSecret: c.NewSecret, NewS3Secret: c.S3, RemoveS3Secret: c.NoS3}
		if c.Expires.set {
			expires, err := expiryOf(ctx, on, c.Expires.when)
			if err != nil {
				return wire.IssuedKey{}, err
			}
			change.Expires = &expires
		}
		if !c.any() {
			return on.UpdateKey(ctx, id, change, client.UpdateOptions{Force: c.Force})
		}
		return c.updateGrants(ctx, on, id, change)
	})
}

// updateGrants changes a key with the flags of grants, which may be about parts of a grant that it
// has.
func (c *keyUpdate) updateGrants(ctx context.Context, on administration.Instance, id string, change wire.UpdateKey) (issued wire.IssuedKey, err error) {
	for range maxUpdates {
		var key wire.Key
		if key, err = on.Key(ctx, id); err != nil {
			return issued, err
		}
		var grants []wire.Grant
		if grants, err = c.of(key.Grants); err != nil {
			return issued, err
		}
		change.Grants = &grants
		issued, err = on.UpdateKey(ctx, id, change, client.UpdateOptions{IfMatch: key.ETag, Force: c.Force})
		if !administration.Changed(err) {
			break
		}
	}
	return issued, err
}
