package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"sluice/access"
	"sluice/access/keys"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/database"
	"sluice/database/whole"
	"sluice/internal/units"
	"sluice/metastore"
)

// groupCommand manages the limits of groups of keys, also while nodes run. Nodes apply a change
// within seconds.
type groupCommand struct {
	Show groupShow `cmd:"" help:"Show the limits of a group of keys, and how much of its quotas is used."`
	Set  groupSet  `cmd:"" help:"Change limits of a group of keys. Those that are not named stay as they are."`
}

// oneGroup is a command on one group.
type oneGroup struct {
	keyFlags

	Group string `arg:"" help:"Name of the group. A key that was created without one is in a group named like its id."`
}

// print calls fn and prints the limits that it returns.
func (c *oneGroup) print(ctx context.Context, console *console, fn func(ctx context.Context, store whole.Database) (keys.Limits, error)) error {
	return c.withKeys(ctx, false, func(ctx context.Context, store whole.Database) error {
		limits, err := fn(ctx, store)
		if errors.Is(err, database.ErrNotFound) {
			return exitWith(exitNotFound, fmt.Errorf("there is no group %s: sluice key list shows the groups; a - is the group of one key, with the id of the key as its name", terminal.Name(c.Group)))
		}
		if err != nil {
			return err
		}
		used, err := store.Usage(ctx, c.Group)
		if err != nil {
			return err
		}
		if c.JSON {
			return writeGroupJSON(console, c.Group, limits, used)
		}
		return writeGroup(console, limits, used)
	})
}

// printedGroup is a group in JSON. Limits that are the service's defaults are omitted; a limit of
// -1 is unlimited.
type printedGroup struct {
	Group  string           `json:"group"`
	Limits map[string]int64 `json:"limits"`
	Used   map[string]int64 `json:"used"`
}

func writeGroupJSON(console *console, name string, limits keys.Limits, used metastore.Used) error {
	p := printedGroup{name, limits.Members(), map[string]int64{}}
	for _, k := range keys.LimitKinds {
		if k.Quota() {
			p.Used[k.Member()] = k.Used(used)
		}
	}
	return terminal.WriteJSON(console.out, p)
}

// writeGroup writes a line for each limit: its name, its value and, if it is a quota, the used
// part.
func writeGroup(console *console, limits keys.Limits, used metastore.Used) error {
	defaults := keyDefaults
	table := tabwriter.NewWriter(console.out, 0, 0, 2, ' ', tabwriter.DiscardEmptyColumns)
	if err := printLine(table, "LIMIT\tVALUE\tUSED"); err != nil {
		return err
	}
	for _, k := range keys.LimitKinds {
		limit, use := *k.Of(&limits), ""
		text := limitText(k, limit)
		if text == "" {
			text = limitText(k, *k.Of(&defaults)) + ", or serve's --key-limits"
		}
		if k.Quota() {
			if use = fmt.Sprint(k.Used(used)); k.Bytes {
				use = units.Bytes(k.Used(used))
			}
			if limit > 0 {
				use += fmt.Sprintf(" (%.0f%%)", float64(k.Used(used))/float64(limit)*100)
			}
		}
		if err := printLine(table, k.Flag()+"\t"+text+"\t"+use); err != nil {
			return err
		}
	}
	return table.Flush()
}

type groupShow struct{ oneGroup }

// Help returns examples.
func (groupShow) Help() string {
	return examples("sluice group show team-a", "sluice group show team-a --json")
}

// Run prints the limits and the usage.
func (c *groupShow) Run(ctx context.Context, console *console) error {
	return c.print(ctx, console, func(ctx context.Context, store whole.Database) (keys.Limits, error) {
		return store.GroupLimits(ctx, c.Group)
	})
}

type groupSet struct {
	oneGroup

	Default []string   `placeholder:"LIMIT" help:"Limits to set back to the service's defaults, such as stored-bytes."`
	Limits  limitFlags `embed:"" set:"whose=the keys of the group"`
}

// Help returns examples.
func (groupSet) Help() string {
	return examples("sluice group set team-a --stored-bytes 10G --requests-per-second 50", "sluice group set team-a --open-uploads unlimited --default channels")
}

// Validate reports all errors.
func (c *groupSet) Validate() error {
	defaults, err := c.defaults()
	limits := c.Limits.limits()
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
func (c *groupSet) Run(ctx context.Context, console *console) error {
	defaults, err := c.defaults()
	if err != nil {
		return err
	}
	return c.print(ctx, console, func(ctx context.Context, store whole.Database) (keys.Limits, error) {
		return access.SetLimits(ctx, store, c.Group, c.Limits.limits(), defaults)
	})
}
