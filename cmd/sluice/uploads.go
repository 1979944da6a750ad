package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"sluice/blob"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
)

// uploadCommand manages open uploads. Without one of its commands it is put, as in the command line
// of the network: upload SRC DST. A file named ls or abort is written ./ls.
type uploadCommand struct {
	Ls    uploadLs    `cmd:"" aliases:"list" help:"List the open uploads of an account."`
	Abort uploadAbort `cmd:"" help:"Abort uploads, and free the bytes that they have stored."`
	Put   putCommand  `cmd:"" default:"withargs" hidden:"" help:"Store a file, a folder or standard input."`
}

type uploadLs struct {
	Account string `arg:"" help:"Account whose uploads to list."`

	serverFlags
	outputFlags
}

// Validate returns an error for an account that no server accepts.
func (c *uploadLs) Validate() error {
	if c.Account == "" { // the parser reports that it is missing
		return nil
	}
	_, err := blob.ParseAccount(c.Account)
	return err
}

// Help returns examples.
func (uploadLs) Help() string { return examples("sluice upload ls team") }

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
func (c *uploadLs) Run(ctx context.Context, console *console) error {
	from, err := c.client(console, "")
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(console.out, 0, 0, 2, ' ', 0)
	for u, err := range from.Uploads(ctx, c.Account) {
		if err != nil {
			return errors.Join(table.Flush(), about(terminal.Name(c.Account), err))
		}
		if c.JSON {
			err = terminal.WriteJSON(console.out, printedUpload{u.ID, u.Account, u.Name, u.Bytes, u.PartSize, u.Created, u.Expires})
		} else {
			_, err = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", terminal.Text(u.ID), formatTime(u.Created), units.Bytes(u.Bytes), terminal.Name(u.Account+"/"+u.Name))
		}
		if err != nil {
			return err
		}
	}
	return table.Flush()
}

type uploadAbort struct {
	ID []string `arg:"" help:"Id of an upload, as upload ls prints it."`

	serverFlags
}

// Help returns examples.
func (uploadAbort) Help() string { return examples("sluice upload abort ID") }

// Run aborts the uploads. It tries all of them.
func (c *uploadAbort) Run(ctx context.Context, console *console) error {
	on, err := c.client(console, "")
	if err != nil {
		return err
	}
	return eachOf(c.ID, func(id string) error {
		if err := on.AbortUpload(ctx, id); err != nil {
			return about(terminal.Name(id), err)
		}
		return nil
	})
}
