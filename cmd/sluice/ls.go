package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"sluice/client"
	"sluice/internal/terminal"
	"sluice/internal/units"
)

// lsCommand lists blobs.
type lsCommand struct {
	Prefix remoteOperand `arg:"" name:"prefix" help:"ACCOUNT, or ACCOUNT/PREFIX for the names that begin with it."`

	Recursive bool `short:"r" env:"-" help:"List all names, and not only those up to the next slash."`
	Long      bool `short:"l" env:"-" help:"Also print sizes and times of modification."`

	serverFlags
	outputFlags
}

// Help returns examples.
func (lsCommand) Help() string {
	return examples("sluice ls team", "sluice ls -l team/photos/", "sluice ls -r --json team")
}

// printedPrefix is a group of names in JSON.
type printedPrefix struct {
	Account string `json:"account"`
	Prefix  string `json:"prefix"`
}

// Run prints the names, relative to the prefix's last slash.
func (c *lsCommand) Run(ctx context.Context, console *console) error {
	from, err := c.client(console, "")
	if err != nil {
		return err
	}
	o := client.ListOptions{Prefix: c.Prefix.Name}
	if !c.Recursive {
		o.Delimiter = "/"
	}
	folder := c.Prefix.Name[:strings.LastIndexByte(c.Prefix.Name, '/')+1]
	out, empty := newLongList(console.out), true
	for e, err := range from.List(ctx, c.Prefix.Account, o) {
		if err == nil {
			err = c.print(out, folder, e)
		}
		if err != nil {
			return errors.Join(out.Flush(), blobError(c.Prefix.Remote, err))
		}
		empty = false
	}
	if empty {
		return c.nothingAt(console, c.Prefix.Remote)
	}
	return out.Flush()
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

func (c *lsCommand) print(out *longList, folder string, e client.Entry) error {
	name := terminal.Name(strings.TrimPrefix(e.Name+e.Prefix, folder))
	switch {
	case c.JSON:
		return writeEntry(out, c.Prefix.Account, e)
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
