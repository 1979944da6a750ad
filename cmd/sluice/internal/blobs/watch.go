package blobs

import (
	"context"
	"errors"
	"strings"

	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
	"sluice/wire"
)

// Watch prints changes.
type Watch struct {
	Prefix cli.RemoteOperand `arg:"" optional:"" name:"prefix" help:"ACCOUNT, or ACCOUNT/PREFIX for the names that begin with it. Default: all accounts."`

	Kinds []string `env:"-" placeholder:"KIND,..." help:"Print only these kinds of changes, such as stored, replaced and deleted."`
	After string   `env:"-" placeholder:"POSITION" help:"Begin behind a position that was printed before, or at the oldest change that is kept with start. Default: now."`
	Exec  string   `env:"-" hidden:"" help:"Refused: read lines instead."`

	cli.ServerFlags
	cli.OutputFlags
}

// Run prints changes until it is interrupted.
func (c *Watch) Run(ctx context.Context, console *cli.Console) error {
	if c.Exec != "" {
		return cli.Usagef("--exec does not exist, since names of blobs would become parts of commands: read lines instead, as in sluice watch --json %s | while read -r change; do ...; done", terminal.Name(strings.TrimSuffix(c.Prefix.String(), "/")))
	}
	from, err := c.ClientOf(console, c.Prefix)
	if err != nil {
		return err
	}
	o := client.ChangesOptions{Account: c.Prefix.Account, Prefix: c.Prefix.Name, Kinds: c.Kinds, After: c.After}
	position := ""
	o.Passed = func(at string) {
		if position == "" && err == nil {
			err = c.Remark(console, "watching from the position "+at)
		}
		position = at
	}
	for change, failed := range from.Changes(ctx, o) {
		if err = errors.Join(err, failed); err == nil {
			err = c.print(console, change)
		}
		if err != nil {
			break
		}
		position = change.Position
	}
	var gone *client.Error
	if errors.As(err, &gone) && gone.Restart != "" {
		return cli.About("list the blobs, and continue with --after "+gone.Restart, err)
	}
	if position != "" && !c.JSON {
		err = errors.Join(err, c.Remark(console, "continue with --after "+position))
	}
	return err
}

// print prints a change: with --json as the server has sent it.
func (c *Watch) print(console *cli.Console, change wire.Change) error {
	name := change.Name
	if c.Prefix.Account == "" {
		name = change.Account + "/" + name
	}
	return c.Result(console, change, formatTime(change.Time)+"  "+change.Kind+"  "+units.Bytes(change.Size)+"  "+terminal.Name(name))
}
