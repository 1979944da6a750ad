package blobs

import (
	"context"
	"errors"
	"strings"
	"text/tabwriter"

	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
)

// Ls lists blobs.
type Ls struct {
	Prefix cli.RemoteOperand `arg:"" optional:"" name:"prefix" help:"ACCOUNT, or ACCOUNT/PREFIX for the names that begin with it. Default: the accounts."`

	Recursive bool `short:"r" env:"-" help:"List all names, and not only those up to the next slash."`
	Long      bool `short:"l" env:"-" help:"Also print sizes and times of modification."`

	cli.ServerFlags
	cli.OutputFlags
}

// printedPrefix is a group of names in JSON.
type printedPrefix struct {
	Account string `json:"account"`
	Prefix  string `json:"prefix"`
}

// Run prints the names below the prefix, or the accounts.
func (c *Ls) Run(ctx context.Context, console *cli.Console) error {
	from, err := c.ClientOf(console, c.Prefix)
	if err != nil {
		return err
	}
	out := c.Table(console, "")
	out.Init(console.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	err = eachAccount(ctx, console, c.OutputFlags, from, c.Prefix.Remote, func(of operand.Remote, account *client.Account) error {
		if account != nil && !c.Recursive {
			return c.printAccount(out, account)
		}
		return c.list(ctx, console, from, out, of, account != nil)
	})
	return errors.Join(err, out.Flush())
}

// list prints the names below a prefix, relative to its last slash or, on request, to the server.
func (c *Ls) list(ctx context.Context, console *cli.Console, from *client.Client, out *cli.Table, of operand.Remote, whole bool) error {
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
		return remarkNothingAt(console, c.OutputFlags, of)
	}
	return nil
}

// printAccount prints an account as a folder.
func (c *Ls) printAccount(out *cli.Table, a *client.Account) error {
	return c.row(out, printedUse{Account: a.Account, Blobs: a.Blobs, Bytes: a.Bytes}, units.Bytes(a.Bytes), units.Count(a.Blobs, "blob"), a.Account+"/")
}

// row prints a name, and with --long the columns before it.
func (c *Ls) row(out *cli.Table, asJSON any, first, second, name string) error {
	if !c.Long {
		return out.Row(asJSON, name)
	}
	return out.Row(asJSON, first, second, "  "+name)
}

func (c *Ls) print(out *cli.Table, account, name string, e client.Entry) error {
	first, second := units.Bytes(e.Size), formatTime(e.LastModified)
	if e.Prefix != "" {
		first, second = "-", "-"
	}
	return c.row(out, printedEntry(account, e), first, second, terminal.Name(name))
}

// printedEntry returns a blob or a group of names in JSON.
func printedEntry(account string, e client.Entry) any {
	if e.Prefix != "" {
		return printedPrefix{account, e.Prefix}
	}
	return newPrintedBlob(account, e.Blob)
}
