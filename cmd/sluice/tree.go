package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"

	"sluice/client"
	"sluice/internal/operand"
	"sluice/internal/terminal"
	"sluice/internal/units"
)

// treeCommand prints the names below a prefix as a tree.
type treeCommand struct {
	Prefix remoteOperand `arg:"" optional:"" name:"prefix" help:"ACCOUNT, or ACCOUNT/PREFIX/. Default: all accounts."`

	Level int  `short:"L" env:"-" placeholder:"NUMBER" help:"Print so many levels, and do not list what is below them. Default: all."`
	Long  bool `short:"l" env:"-" help:"Also print sizes."`

	serverFlags
	outputFlags
}

// Help returns examples.
func (*treeCommand) Help() string {
	return examples("sluice tree team", "sluice tree -l -L 2 team/photos/")
}

// Validate checks the flags.
func (c *treeCommand) Validate() error {
	if c.Level < 0 {
		return fmt.Errorf("--level %d: must be at least 1", c.Level)
	}
	return nil
}

// Run prints the tree while it lists the names.
func (c *treeCommand) Run(ctx context.Context, console *console) error {
	from, err := c.client(console, "")
	if err != nil {
		return err
	}
	t := &treeWalk{command: c, from: from, out: console.out}
	err = c.eachAccount(ctx, console, from, c.Prefix.Remote, func(of operand.Remote, _ *client.Account) error {
		prefix, before := asFolder(of), t.folders+t.blobs
		t.account, t.root = prefix.Account, terminal.Name(prefix.String())
		if err := t.walk(ctx, prefix.Name, "", 1); err != nil {
			return blobError(prefix, err)
		}
		if t.folders+t.blobs == before {
			return c.nothingAt(console, prefix)
		}
		return nil
	})
	if err != nil || t.folders+t.blobs == 0 {
		return err
	}
	remark := fmt.Sprintf("%s, %s, %s", counted(t.folders, "folder"), counted(t.blobs, "blob"), units.Bytes(t.bytes))
	if t.cut {
		remark += fmt.Sprintf(", and more below level %d", c.Level)
	}
	return c.remark(console, remark)
}

// treeWalk lists folder by folder, depth first, as only then is it known which entry is the last
// one in its folder. It holds a page of entries for each level in memory.
type treeWalk struct {
	command *treeCommand
	from    *client.Client
	account string
	root    string // is printed before the first entry
	out     io.Writer

	folders, blobs, bytes int64
	cut                   bool // a folder at the last level was not listed
}

// walk prints what is directly and indirectly in a folder. Each line begins with indent.
func (t *treeWalk) walk(ctx context.Context, folder, indent string, level int) error {
	next, stop := iter.Pull2(t.from.List(ctx, t.account, client.ListOptions{Prefix: folder, Delimiter: "/"}))
	defer stop()
	e, err, more := next()
	for more {
		if err != nil {
			return err
		}
		var following client.Entry
		following, err, more = next()
		branch, below := "├── ", "│   "
		if !more {
			branch, below = "└── ", "    "
		}
		if err := t.print(e, folder, indent+branch); err != nil {
			return err
		}
		t.cut = t.cut || e.Prefix != "" && level == t.command.Level
		if e.Prefix != "" && level != t.command.Level {
			if err := t.walk(ctx, e.Prefix, indent+below, level+1); err != nil {
				return err
			}
		}
		e = following
	}
	return nil
}

// print prints an entry of a folder.
func (t *treeWalk) print(e client.Entry, folder, before string) error {
	if e.Prefix != "" {
		t.folders++
	} else {
		t.blobs++
		t.bytes += e.Size
	}
	if t.command.JSON {
		return writeEntry(t.out, t.account, e)
	}
	if t.root != "" {
		if err := printLine(t.out, t.root); err != nil {
			return err
		}
		t.root = ""
	}
	if t.command.Long && e.Prefix == "" {
		before += fmt.Sprintf("[%7s]  ", units.Bytes(e.Size))
	}
	return printLine(t.out, before+terminal.Name(strings.TrimPrefix(e.Name+e.Prefix, folder)))
}
