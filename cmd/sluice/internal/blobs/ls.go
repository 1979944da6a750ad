package blobs

import (
	"cmp"
	"context"
	"errors"
	"iter"
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
	Versions  bool `env:"-" help:"List the versions that are kept, too, of each blob the newest first: with their ids, states and, with --long, the keys that wrote them or deleted the blob."`

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
	for e, err := range c.entries(ctx, from, of.Account, o) {
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

// entries returns the blobs, or their versions.
func (c *Ls) entries(ctx context.Context, from *client.Client, account string, o client.ListOptions) iter.Seq2[client.VersionEntry, error] {
	if c.Versions {
		return from.Versions(ctx, account, o)
	}
	return func(yield func(client.VersionEntry, error) bool) {
		for e, err := range from.List(ctx, account, o) {
			if !yield(client.VersionEntry{Entry: e}, err) {
				return
			}
		}
	}
}

// printAccount prints an account as a folder.
func (c *Ls) printAccount(out *cli.Table, a *client.Account) error {
	use := useOf(a)
	return c.row(out, use, a.Account+"/", units.Bytes(a.Bytes), use.counted())
}

// row prints a name and the columns before it, the first two with --long only.
func (c *Ls) row(out *cli.Table, asJSON any, name string, before ...string) error {
	if !c.Long {
		before = before[2:]
	}
	if len(before) > 0 {
		name = "  " + name
	}
	return out.Row(asJSON, append(before, name)...)
}

func (c *Ls) print(out *cli.Table, account, name string, e client.VersionEntry) error {
	columns, asJSON := []string{units.Bytes(e.Size), formatTime(e.LastModified)}, printedEntry(account, e.Entry)
	switch {
	case e.Prefix != "":
		columns[0], columns[1] = "-", "-"
	case e.Deleted:
		columns[0] = "-"
	}
	if c.Versions && e.Prefix == "" {
		asJSON = newPrintedVersion(account, e)
		columns = append(columns, e.Version, stateOf(e))
	} else if c.Versions {
		columns = append(columns, "-", "-")
	}
	if c.Versions && c.Long {
		columns = append(columns, cmp.Or(e.By, "-"))
	}
	return c.row(out, asJSON, terminal.Name(name), columns...)
}

// printedEntry returns a blob or a group of names in JSON.
func printedEntry(account string, e client.Entry) any {
	if e.Prefix != "" {
		return printedPrefix{account, e.Prefix}
	}
	return newPrintedBlob(account, e.Blob)
}
