package keys

import (
	"context"
	"errors"
	"fmt"

	"sluice/admin"
	"sluice/blob"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/database/whole"
	"sluice/wire"
)

// Bucket manages the aliases of S3's buckets, also while nodes run. Nodes apply a change
// within seconds.
type Bucket struct {
	Alias  bucketAlias  `cmd:"" help:"Make a bucket's name an alias for an account."`
	List   bucketList   `cmd:"" aliases:"ls" help:"List all aliases."`
	Remove bucketRemove `cmd:"" aliases:"rm" help:"Remove an alias. The account's blobs remain."`
}

type bucketAlias struct {
	keyFlags

	Name    string `arg:"" placeholder:"NAME" help:"Name of the bucket."`
	Account string `arg:"" placeholder:"ACCOUNT" help:"Account with the blobs."`
}

// Validate reports all errors.
func (c *bucketAlias) Validate() error {
	_, err := blob.ParseAccount(c.Account)
	return errors.Join(blob.CheckBucket(c.Name), err)
}

// Run stores the alias. It refuses one for which an account has blobs: they would be hidden from
// S3's clients.
func (c *bucketAlias) Run(ctx context.Context, console *cli.Console) error {
	account, err := blob.ParseAccount(c.Account)
	if err != nil {
		return err
	}
	return c.WithMeta(ctx, true, func(ctx context.Context, store whole.Database) error {
		if _, err := admin.New(store, admin.Options{}).SetAlias(ctx, operator(), c.Name, wire.SetAlias{Account: account}); err != nil {
			return err
		}
		if c.JSON {
			return terminal.WriteJSON(console.Out, printedAlias{c.Name, account})
		}
		return c.Remark(console, fmt.Sprintf("The bucket %s has the blobs of the account %s.", c.Name, terminal.Name(account)))
	})
}

// printedAlias is an alias in JSON.
type printedAlias struct {
	Bucket  string `json:"bucket"`
	Account string `json:"account"`
}

type bucketList struct{ keyFlags }

// Run prints all aliases, ordered by name.
func (c *bucketList) Run(ctx context.Context, console *cli.Console) error {
	return c.WithMeta(ctx, false, func(ctx context.Context, store whole.Database) error {
		list, err := store.ListAliases(ctx)
		table := c.Table(console, "BUCKET\tACCOUNT")
		for _, a := range list {
			err = errors.Join(err, table.Row(printedAlias{a.Name, a.Account}, a.Name, terminal.Name(a.Account)))
		}
		return errors.Join(err, table.Flush())
	})
}

type bucketRemove struct {
	keyFlags

	Name string `arg:"" placeholder:"NAME" help:"Name of the bucket."`
}

// Run removes an alias.
func (c *bucketRemove) Run(ctx context.Context, console *cli.Console) error {
	return c.WithMeta(ctx, false, func(ctx context.Context, store whole.Database) error {
		err := admin.New(store, admin.Options{}).DeleteAlias(ctx, operator(), c.Name)
		if errors.Is(err, admin.ErrNotFound) {
			return cli.ExitWith(cli.ExitNotFound, fmt.Errorf("there is no alias %s: sluice bucket list shows all", terminal.Name(c.Name)))
		}
		if err != nil {
			return err
		}
		return c.Remark(console, fmt.Sprintf("The bucket %s is no alias any more.", terminal.Name(c.Name)))
	})
}
