package keys

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/access/keys"
	"sluice/admin"
	"sluice/client"
	"sluice/cmd/sluice/internal/administration"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/settings"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
	"sluice/wire"
)

// Group manages the limits of groups of keys, also while nodes run. Nodes apply a change
// within seconds.
type Group struct {
	List groupList `cmd:"" aliases:"ls" help:"List the groups of keys, and how much of their quotas is used."`
	Show groupShow `cmd:"" help:"Show the limits of a group of keys, and how much of its quotas is used."`
	Set  groupSet  `cmd:"" help:"Change limits of a group of keys. Those that are not named stay as they are."`
}

// groupFlags are the flags of commands on groups.
type groupFlags struct {
	administration.Flags
	settings.KeyLimitsFlag `embed:""`
}

// options returns the options for the database.
func (f *groupFlags) options() administration.Options {
	return administration.Options{Service: admin.Options{KeyLimits: f.Limits()}}
}

type groupList struct{ groupFlags }

// Run prints all groups, ordered by name.
func (c *groupList) Run(ctx context.Context, console *cli.Console) error {
	heading := "GROUP"
	for _, k := range keys.LimitKinds {
		if k.Quota() {
			heading += "\t" + strings.ToUpper(k.Flag())
		}
	}
	return administration.PrintAll(ctx, console, &c.Flags, c.options(), heading, administration.Instance.Groups, func(g wire.Group) []string {
		cells := []string{printable(g.Group)}
		for _, k := range keys.LimitKinds {
			if k.Quota() {
				cells = append(cells, usedText(k, &g))
			}
		}
		return cells
	})
}

// usedText returns how much of a quota is used.
func usedText(k keys.LimitKind, g *wire.Group) string {
	used, limit := g.Used[k.Member()], g.Effective[k.Member()]
	text := fmt.Sprint(used)
	if k.Bytes {
		text = units.Bytes(used)
	}
	if limit > 0 {
		text += fmt.Sprintf(" (%.0f%%)", float64(used)/float64(limit)*100)
	}
	return text
}

// oneGroup is a command on one group.
type oneGroup struct {
	groupFlags

	Group string `arg:"" help:"Name of the group. A key that was created without one is in a group named like its id."`
}

// print calls fn and prints the group that it returns.
func (c *oneGroup) print(ctx context.Context, console *cli.Console, fn func(ctx context.Context, on administration.Instance) (wire.Group, error)) error {
	return c.With(ctx, console, c.options(), func(ctx context.Context, on administration.Instance) error {
		group, err := fn(ctx, on)
		switch {
		case err != nil:
			return administration.Explain(err, "there is no group %s: sluice group list shows all; the group of a single key has the key's id as its name", terminal.Name(c.Group))
		case c.JSON:
			return terminal.WriteJSON(console.Out, group)
		}
		return writeGroup(cli.NewTable(console.Out, "LIMIT\tVALUE\tUSED"), &group)
	})
}

// writeGroup writes a line for each limit: its name, its value and, for a quota, the used part.
func writeGroup(table *cli.Table, g *wire.Group) error {
	for _, k := range keys.LimitKinds {
		text, used := settings.LimitText(k, g.Effective[k.Member()]), ""
		if g.Limits[k.Member()] == 0 {
			text += " (default)"
		}
		if k.Quota() {
			used = usedText(k, g)
		}
		if err := table.Row(nil, k.Flag(), text, used); err != nil {
			return err
		}
	}
	return table.Flush()
}

type groupShow struct{ oneGroup }

// Run prints the limits and the usage.
func (c *groupShow) Run(ctx context.Context, console *cli.Console) error {
	return c.print(ctx, console, func(ctx context.Context, on administration.Instance) (wire.Group, error) {
		return on.Group(ctx, c.Group)
	})
}

type groupSet struct {
	oneGroup

	Default   []string            `placeholder:"LIMIT" help:"Limits to set back to the service's defaults, such as stored-bytes."`
	NewLimits settings.LimitFlags `embed:"" set:"whose=the keys of the group"`
}

// Validate reports all errors.
func (c *groupSet) Validate() error {
	limits := c.NewLimits.Limits()
	var names []string
	var err error
	for _, k := range keys.LimitKinds {
		names = append(names, k.Flag())
		if *k.Of(&limits) != 0 && slices.Contains(c.Default, k.Flag()) {
			err = errors.Join(err, fmt.Errorf("--%s and --default %s: set one of them", k.Flag(), k.Flag()))
		}
	}
	for _, name := range c.Default {
		if !slices.Contains(names, name) {
			err = errors.Join(err, fmt.Errorf("--default %s: want one of %s", name, strings.Join(names, ", ")))
		}
	}
	if err == nil && len(c.Default) == 0 && limits == (keys.Limits{}) {
		err = errors.New("nothing to change: set a limit, such as --stored-bytes 10G, or --default")
	}
	return err
}

// Run changes the limits and prints them.
func (c *groupSet) Run(ctx context.Context, console *cli.Console) error {
	limits := c.NewLimits.Limits()
	change := wire.UpdateGroup{Limits: limits.Members()}
	for _, k := range keys.LimitKinds {
		if slices.Contains(c.Default, k.Flag()) {
			change.Limits[k.Member()] = 0
		}
	}
	return c.print(ctx, console, func(ctx context.Context, on administration.Instance) (wire.Group, error) {
		return on.UpdateGroup(ctx, c.Group, change, client.UpdateOptions{})
	})
}
