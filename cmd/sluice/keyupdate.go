package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/access"
	"sluice/database/whole"
	"sluice/internal/units"
)

type keyUpdate struct {
	oneKey

	Scopes      []string `placeholder:"SCOPE" help:"Operations that the key allows: read, write, channels, or admin for all of them."`
	Accounts    []string `placeholder:"ACCOUNT" help:"Accounts on which it allows them."`
	AllAccounts bool     `help:"Allow them on all accounts."`
	S3          bool     `name:"s3" xor:"s3" help:"Give it a new S3 secret, with which S3 clients sign. One that it has is no longer valid."`
	NoS3        bool     `name:"no-s3" xor:"s3" help:"Remove its S3 secret."`
	s3Flags     `embed:""`
	Label       *string   `placeholder:"TEXT" help:"Description of the key."`
	Expires     newExpiry `placeholder:"WHEN" help:"Time at which the key expires, such as 2030-01-31 or 2030-01-31T12:00:00Z, a duration from now, such as 30d or 720h, or never."`
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

// Help returns examples.
func (keyUpdate) Help() string {
	return examples("sluice key update ID --expires 30d", "sluice key update ID --scopes read,write --accounts team-a,team-b", "sluice key update ID --all-accounts --label CI --expires never")
}

// Validate reports all errors.
func (c *keyUpdate) Validate() error {
	_, err := c.change()
	if c.Scopes == nil && c.Accounts == nil && !c.AllAccounts && c.Label == nil && !c.Expires.set && !c.S3 && !c.NoS3 {
		err = errors.Join(err, errors.New("nothing to change: set --scopes, --accounts, --all-accounts, --label, --expires, --s3 or --no-s3"))
	}
	return err
}

// change returns the changes that the flags name, without the expiry.
func (c *keyUpdate) change() (access.KeyChange, error) {
	change := access.KeyChange{Label: c.Label, NoS3: c.NoS3}
	var errs []error
	if c.Scopes != nil {
		scopes, err := access.ParseScopes(c.Scopes)
		if err != nil {
			errs = append(errs, fmt.Errorf("--scopes: %w", err))
		}
		change.Scopes = scopes
	}
	if c.AllAccounts && len(c.Accounts) > 0 {
		errs = append(errs, errors.New("--accounts and --all-accounts: set one of them"))
	}
	if c.AllAccounts {
		change.Accounts = new([]string)
	}
	if len(c.Accounts) > 0 {
		accounts, err := parseAccounts(c.Accounts)
		errs = append(errs, err)
		change.Accounts = &accounts
	}
	return change, errors.Join(errs...)
}

// Run changes the key and prints it.
func (c *keyUpdate) Run(ctx context.Context, console *console) error {
	change, err := c.change()
	if err != nil {
		return err
	}
	if c.S3 {
		if change.S3, err = c.box(); err != nil {
			return err
		}
	}
	return c.printIssued(ctx, console, func(ctx context.Context, store whole.Database, id string) (access.Issued, error) {
		if c.Expires.set {
			expires, err := c.Expires.when.From(store.Now()) // by the clock that the nodes use
			if err != nil {
				return access.Issued{}, exitWith(exitUsage, fmt.Errorf("--expires: %w", err))
			}
			change.Expires = new(time.Time)
			*change.Expires = expires
		}
		return access.Update(ctx, store, id, change)
	})
}
