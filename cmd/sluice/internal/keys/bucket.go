package keys

import (
	"context"
	"errors"
	"fmt"

	"sluice/blob"
	"sluice/cmd/sluice/internal/administration"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/terminal"
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
	administration.Flags

	Name    string `arg:"" placeholder:"NAME" help:"Name of the bucket."`
	Account string `arg:"" placeholder:"ACCOUNT" help:"Account with the blobs."`
}

// Validate reports all errors.
func (c *bucketAlias) Validate() error {
	_, err := blob.ParseAccount(c.Account)
	return errors.Join(blob.CheckBucket(c.Name), err)
}

// Run stores the alias. An instance refuses one for which an account has blobs: they would be
// hidden from S3's clients.
func (c *bucketAlias) Run(ctx context.Context, console *cli.Console) error {
	return c.With(ctx, console, administration.Options{Create: true}, func(ctx context.Context, on administration.Instance) error {
		alias, err := on.SetAlias(ctx, c.Name, c.Account)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return terminal.WriteJSON(console.Out, alias)
		}
		return c.Remark(console, fmt.Sprintf("The bucket %s has the blobs of the account %s.", alias.Bucket, terminal.Name(alias.Account)))
	})
}

type bucketList struct{ administration.Flags }

// Run prints all aliases, ordered by name.
func (c *bucketList) Run(ctx context.Context, console *cli.Console) error {
	return administration.PrintAll(ctx, console, &c.Flags, administration.Options{}, "BUCKET\tACCOUNT", administration.Instance.Aliases, func(a wire.Alias) []string {
		return []string{a.Bucket, terminal.Name(a.Account)}
	})
}

type bucketRemove struct {
	administration.Flags

	Name string `arg:"" placeholder:"NAME" help:"Name of the bucket."`
}

// Run removes an alias.
func (c *bucketRemove) Run(ctx context.Context, console *cli.Console) error {
	return c.With(ctx, console, administration.Options{}, func(ctx context.Context, on administration.Instance) error {
		if err := on.DeleteAlias(ctx, c.Name); err != nil {
			return administration.Explain(err, "there is no alias %s: sluice bucket list shows all", terminal.Name(c.Name))
		}
		return c.Remark(console, fmt.Sprintf("The bucket %s is no alias any more.", terminal.Name(c.Name)))
	})
}
