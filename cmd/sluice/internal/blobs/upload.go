package blobs

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"sluice/cmd/sluice/internal/administration"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
)

// Upload manages open uploads. Without one of its commands it is put, as in the command line
// of the network: upload SRC DST. A file named ls or abort is written ./ls.
type Upload struct {
	Ls    uploadLs    `cmd:"" aliases:"list" help:"List the open uploads of an account."`
	Abort uploadAbort `cmd:"" help:"Abort uploads, and free the bytes that they have stored."`
	Put   Put         `cmd:"" default:"withargs" hidden:"" help:"Store a file, a folder or standard input."`
}

type uploadLs struct {
	Account cli.RemoteOperand `arg:"" optional:"" help:"Account whose uploads to list. Default: all accounts, with their groups, for administrators."`

	administration.Flags
}

// printedUpload is an open upload in JSON.
type printedUpload struct {
	ID       string    `json:"id"`
	Group    string    `json:"group,omitempty"` // charged for it; of all accounts only
	Account  string    `json:"account"`
	Name     string    `json:"name"`
	Bytes    int64     `json:"bytes"`
	PartSize int64     `json:"partSize"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires"`
}

// Run prints an account's uploads, the oldest first, or the ones in all accounts.
func (c *uploadLs) Run(ctx context.Context, console *cli.Console) error {
	of := c.Account.Remote
	if of.Name != "" {
		return cli.Usagef("%s is not an account: want ACCOUNT, such as team", terminal.Name(of.String()))
	}
	database, err := c.Database()
	switch {
	case err != nil:
		return err
	case database && of.Context != "":
		return cli.Usagef("%s is on a server: omit the context, or the database", terminal.Name(of.String()))
	case database:
		return c.With(ctx, console, administration.Options{}, func(ctx context.Context, on administration.Instance) error { return c.printAll(ctx, console, on) })
	case of.Account == "":
		return c.WithServer(ctx, console, func(ctx context.Context, on administration.Instance) error { return c.printAll(ctx, console, on) })
	}
	from, err := c.ClientOf(console, c.Account)
	if err != nil {
		return err
	}
	table := c.Table(console, "")
	for u, err := range from.Uploads(ctx, of.Account) {
		if err != nil {
			return errors.Join(table.Flush(), cli.About(terminal.Name(of.Account), err))
		}
		if err := printUpload(table, printedUpload{u.ID, "", u.Account, u.Name, u.Bytes, u.PartSize, u.Created, u.Expires}); err != nil {
			return err
		}
	}
	return table.Flush()
}

// printAll prints all accounts' uploads, or the operand's.
func (c *uploadLs) printAll(ctx context.Context, console *cli.Console, on administration.Instance) error {
	var all []printedUpload
	for u, err := range on.Uploads(ctx) {
		if err != nil {
			return err
		}
		if account := c.Account.Account; account == "" || u.Account == account {
			all = append(all, printedUpload{u.UploadID, u.Group, u.Account, u.Name, u.Bytes, u.PartSize, u.Created, u.Expires})
		}
	}
	slices.SortFunc(all, func(a, b printedUpload) int { return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID)) })
	table := c.Table(console, "")
	for _, u := range all {
		if c.Account.Account != "" {
			u.Group = "" // as an account's own list has it
		}
		if err := printUpload(table, u); err != nil {
			return err
		}
	}
	return table.Flush()
}

func printUpload(table *cli.Table, u printedUpload) error {
	return table.Row(u, u.ID, formatTime(u.Created), units.Bytes(u.Bytes), terminal.Name(u.Account+"/"+u.Name))
}

type uploadAbort struct {
	ID []string `arg:"" help:"Id of an upload, as upload ls prints it."`

	cli.ServerFlags
}

// Run aborts the uploads. It tries all of them.
func (c *uploadAbort) Run(ctx context.Context, console *cli.Console) error {
	on, err := c.Client(console, "")
	if err != nil {
		return err
	}
	return eachOf(c.ID, func(id string) error {
		if err := on.AbortUpload(ctx, id); err != nil {
			return cli.About(terminal.Name(id), err)
		}
		return nil
	})
}
