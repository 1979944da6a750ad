package keys

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/access/keys"
	"sluice/admin"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/settings"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/database"
	"sluice/database/whole"
	"sluice/internal/units"
	"sluice/metastore"
	"sluice/wire"
)

// Group manages the limits of groups of keys, also while nodes run. Nodes apply a change
// within seconds.
type Group struct {
	Show groupShow `cmd:"" help:"Show the limits of a group of keys, and how much of its quotas is used."`
	Set  groupSet  `cmd:"" help:"Change limits of a group of keys. Those that are not named stay as they are."`
}

// oneGroup is a command on one group.
type oneGroup struct {
	keyFlags

	Group string `arg:"" help:"Name of the group. A key that was created without one is in a group named like its id."`
}

// print calls fn and prints the limits that it returns.
func (c *oneGroup) print(ctx context.Context, console *cli.Console, fn func(ctx context.Context, store whole.Database) (keys.Limits, error)) error {
	return c.WithMeta(ctx, false, func(ctx context.Context, store whole.Database) error {
		limits, err := fn(ctx, store)
		if errors.Is(err, database.ErrNotFound) || errors.Is(err, admin.ErrNotFound) {
			return cli.ExitWith(cli.ExitNotFound, fmt.Errorf("there is no group %s: sluice key list shows the groups; a - is the group of one key, with the id of the key as its name", terminal.Name(c.Group)))
		}
		if err != nil {
			return err
		}
		used, err := store.Usage(ctx, c.Group)
		if err != nil {
			return err
		}
		return c.write(console, limits, used)
	})
}

// PrintedGroup is a group in JSON. Limits that are the service's defaults are omitted; a limit of
// -1 is unlimited.
type PrintedGroup struct {
	Group  string           `json:"group"`
	Limits map[string]int64 `json:"limits"`
	Used   map[string]int64 `json:"used"`
}

// write writes the group as JSON, or a line for each limit: its name, its value and, if it is a
// quota, the used part.
func (c *oneGroup) write(console *cli.Console, limits keys.Limits, used metastore.Used) error {
	printed, defaults := PrintedGroup{c.Group, limits.Members(), map[string]int64{}}, settings.KeyDefaults
	table := cli.NewTable(console.Out, "LIMIT\tVALUE\tUSED")
	for _, k := range keys.LimitKinds {
		limit, use := *k.Of(&limits), ""
		text := settings.LimitText(k, limit)
		if text == "" {
			text = settings.LimitText(k, *k.Of(&defaults)) + ", or serve's --key-limits"
		}
		if k.Quota() {
			n := k.Used(used)
			printed.Used[k.Member()] = n
			if use = fmt.Sprint(n); k.Bytes {
				use = units.Bytes(n)
			}
			if limit > 0 {
				use += fmt.Sprintf(" (%.0f%%)", float64(n)/float64(limit)*100)
			}
		}
		if err := table.Row(nil, k.Flag(), text, use); err != nil {
			return err
		}
	}
	if c.JSON {
		return terminal.WriteJSON(console.Out, printed)
	}
	return table.Flush()
}

type groupShow struct{ oneGroup }

// Run prints the limits and the usage.
func (c *groupShow) Run(ctx context.Context, console *cli.Console) error {
	return c.print(ctx, console, func(ctx context.Context, store whole.Database) (keys.Limits, error) {
		return store.GroupLimits(ctx, c.Group)
	})
}

type groupSet struct {
	oneGroup

	Default []string            `placeholder:"LIMIT" help:"Limits to set back to the service's defaults, such as stored-bytes."`
	Limits  settings.LimitFlags `embed:"" set:"whose=the keys of the group"`
}

// Validate reports all errors.
func (c *groupSet) Validate() error {
	defaults, err := c.defaults()
	limits := c.Limits.Limits()
	if err == nil && len(defaults) == 0 && limits == (keys.Limits{}) {
		return errors.New("nothing to change: set a limit, such as --stored-bytes 10G, or --default")
	}
	for _, k := range defaults {
		if *k.Of(&limits) != 0 {
			err = errors.Join(err, fmt.Errorf("--%s and --default %s: set one of them", k.Flag(), k.Flag()))
		}
	}
	return err
}

// defaults returns the kinds of limits that --default names.
func (c *groupSet) defaults() (kinds []keys.LimitKind, err error) {
	var names []string
	for _, k := range keys.LimitKinds {
		names = append(names, k.Flag())
		if slices.Contains(c.Default, k.Flag()) {
			kinds = append(kinds, k)
		}
	}
	for _, name := range c.Default {
		if !slices.Contains(names, name) {
			err = errors.Join(err, fmt.Errorf("--default %s: want one of %s", name, strings.Join(names, ", ")))
		}
	}
	return kinds, err
}

// Run changes the limits and prints them.
func (c *groupSet) Run(ctx context.Context, console *cli.Console) error {
	defaults, err := c.defaults()
	if err != nil {
		return err
	}
	return c.print(ctx, console, func(ctx context.Context, store whole.Database) (keys.Limits, error) {
		limits := c.Limits.Limits()
		wanted := limits.Members()
		for _, k := range defaults {
			wanted[k.Member()] = 0
		}
		if _, err := admin.New(store, admin.Options{}).UpdateGroup(ctx, operator(), c.Group, nil, wire.UpdateGroup{Limits: wanted}); err != nil {
			return limits, err
		}
		return store.GroupLimits(ctx, c.Group)
	})
}
