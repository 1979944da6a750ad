package blobs

import (
	"context"
	"errors"
	"time"

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
	Account cli.RemoteOperand `arg:"" help:"Account whose uploads to list."`

	cli.ServerFlags
	cli.OutputFlags
}

// printedUpload is an open upload in JSON.
type printedUpload struct {
	ID       string    `json:"id"`
	Account  string    `json:"account"`
	Name     string    `json:"name"`
	Bytes    int64     `json:"bytes"`
	PartSize int64     `json:"partSize"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires"`
}

// Run prints the uploads, the oldest first.
func (c *uploadLs) Run(ctx context.Context, console *cli.Console) error {
	of := c.Account.Remote
	if of.Name != "" {
		return cli.Usagef("%s is not an account: want ACCOUNT, such as team", terminal.Name(of.String()))
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
		if err := table.Row(printedUpload{u.ID, u.Account, u.Name, u.Bytes, u.PartSize, u.Created, u.Expires},
			u.ID, formatTime(u.Created), units.Bytes(u.Bytes), terminal.Name(u.Account+"/"+u.Name)); err != nil {
			return err
		}
	}
	return table.Flush()
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
