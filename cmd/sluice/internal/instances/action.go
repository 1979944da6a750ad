package instances

import (
	"context"
	"fmt"
	"iter"

	"sluice/cmd/sluice/internal/administration"
	"sluice/cmd/sluice/internal/cli"
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

// Run prints the actions. With --json they have the state before and after.
func (c *actionList) Run(ctx context.Context, console *cli.Console) error {
	return c.With(ctx, console, administration.Options{}, func(ctx context.Context, on administration.Instance) error {
		return cli.PrintAll(c.Table(console, "TIME\tKEY\tFROM\tACTION\tSUBJECT"), first(c.Limit, on.Actions(ctx)), func(a wire.Action) []string {
			key := a.Key
			if key == "" {
				key = "-" // an operator at the database, or anybody on a local instance
			}
			return []string{cli.TimeText(a.Time), key, a.From, a.Action, a.Subject}
		})
	})
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
