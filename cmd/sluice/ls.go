package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"sluice/client"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
)

// lsCommand lists blobs.
type lsCommand struct {
	Prefix remoteOperand `arg:"" optional:"" name:"prefix" help:"ACCOUNT, or ACCOUNT/PREFIX for the names that begin with it. Default: the accounts."`

	Recursive bool `short:"r" env:"-" help:"List all names, and not only those up to the next slash."`
	Long      bool `short:"l" env:"-" help:"Also print sizes and times of modification."`

	serverFlags
	outputFlags
}

// Help returns examples.
func (lsCommand) Help() string {
	return examples("sluice ls", "sluice ls team", "sluice ls -l team/photos/", "sluice ls -r --json team")
}

// printedPrefix is a group of names in JSON.
type printedPrefix struct {
	Account string `json:"account"`
	Prefix  string `json:"prefix"`
}

// Run prints the names below the prefix, or the accounts.
func (c *lsCommand) Run(ctx context.Context, console *console) error {
	from, err := c.client(console, "")
	if err != nil {
		return err
	}
	out := newLongList(console.out)
	err = c.eachAccount(ctx, console, from, c.Prefix.Remote, func(of operand.Remote, account *client.Account) error {
		if account != nil && !c.Recursive {
			return c.printAccount(out, account)
		}
		return c.list(ctx, console, from, out, of, account != nil)
	})
	return errors.Join(err, out.Flush())
}

// list prints the names below a prefix, relative to its last slash or, on request, to the server.
func (c *lsCommand) list(ctx context.Context, console *console, from *client.Client, out *longList, of operand.Remote, whole bool) error {
	o := client.ListOptions{Prefix: of.Name}
	if !c.Recursive {
		o.Delimiter = "/"
	}
	folder, before, empty := of.Name[:strings.LastIndexByte(of.Name, '/')+1], "", true
	if whole {
		before = of.Account + "/"
	}
	for e, err := range from.List(ctx, of.Account, o) {
		if err != nil {
			return blobError(of, err)
		}
		if err := c.print(out, of.Account, before+strings.TrimPrefix(e.Name+e.Prefix, folder), e); err != nil {
			return err
		}
		empty = false
	}
	if empty {
		return c.nothingAt(console, of)
	}
	return nil
}

// printAccount prints an account as a folder.
func (c *lsCommand) printAccount(out *longList, a *client.Account) error {
	switch {
	case c.JSON:
		return terminal.WriteJSON(out, printedUse{Account: a.Account, Blobs: a.Blobs, Bytes: a.Bytes})
	case c.Long:
		return out.add("%s\t%s\t  %s/\n", units.Bytes(a.Bytes), counted(a.Blobs, "blob"), a.Account)
	default:
		return out.add("%s/\n", a.Account)
	}
}

// longList aligns columns. It is flushed at times, so that a long list needs little memory.
type longList struct {
	*tabwriter.Writer
	lines int
}

func newLongList(out io.Writer) *longList {
	return &longList{tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight), 0}
}

// add adds a line.
func (l *longList) add(format string, args ...any) error {
	if l.lines++; l.lines%1000 == 0 {
		if err := l.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(l, format, args...)
	return err
}

func (c *lsCommand) print(out *longList, account, name string, e client.Entry) error {
	name = terminal.Name(name)
	switch {
	case c.JSON:
		return writeEntry(out, account, e)
	case !c.Long:
		return out.add("%s\n", name)
	case e.Prefix != "":
		return out.add("%s\t%s\t  %s\n", "-", "-", name)
	default:
		return out.add("%s\t%s\t  %s\n", units.Bytes(e.Size), formatTime(e.LastModified), name)
	}
}

// writeEntry writes a blob or a group of names as JSON.
func writeEntry(out io.Writer, account string, e client.Entry) error {
	if e.Prefix != "" {
		return terminal.WriteJSON(out, printedPrefix{account, e.Prefix})
	}
	return terminal.WriteJSON(out, newPrintedBlob(account, e.Blob))
}
