package instances

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"sluice/cmd/sluice/internal/administration"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/wire"
)

// Action shows the recorded actions of administrators.
type Action struct {
	List actionList `cmd:"" aliases:"ls" help:"List who has changed which key, limit or other setting, the newest first."`
}

type actionList struct {
	administration.Flags

	Limit int `short:"n" placeholder:"N" help:"Print at most this many. Default: all."`
}

// Validate reports all errors.
func (c *actionList) Validate() error {
	if c.Limit < 0 {
		return fmt.Errorf("--limit %d: must be at least 1", c.Limit)
	}
	return nil
}

// Run prints the actions. With --json they have the whole state before and after.
func (c *actionList) Run(ctx context.Context, console *cli.Console) error {
	return c.With(ctx, console, administration.Options{}, func(ctx context.Context, on administration.Instance) error {
		return cli.PrintAll(c.Table(console, "TIME\tKEY\tFROM\tACTION\tSUBJECT\tCHANGE"), first(c.Limit, on.Actions(ctx)), func(a wire.Action) []string {
			key := a.Key
			if key == "" {
				key = "-" // an operator at the database, or anybody on a local instance
			}
			return []string{cli.TimeText(a.Time), key, a.From, a.Action, a.Subject, changeText(a)}
		})
	})
}

// changeText returns the members of a state that an action has changed, with their new values. It
// is empty if the subject was created or removed.
func changeText(a wire.Action) string {
	var before, after map[string]json.RawMessage
	if json.Unmarshal(a.Before, &before) != nil || json.Unmarshal(a.After, &after) != nil {
		return ""
	}
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if !bytes.Equal(before[name], after[name]) {
			changes = append(changes, name+" "+string(after[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, stays := after[name]; !stays {
			changes = append(changes, "no "+name)
		}
	}
	return terminal.Text(strings.Join(changes, ", "))
}

// first returns the first n entries of a list, or all if n is 0.
func first[E any](n int, list iter.Seq2[E, error]) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		seen := 0
		for e, err := range list {
			if seen++; !yield(e, err) || seen == n {
				return
			}
		}
	}
}
