package instances

import (
	"context"
	"errors"
	"fmt"

	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/settings"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/database"
	"sluice/database/whole"
	"sluice/instance"
)

// Resume lets a task that a safety brake has stopped continue, once.
type Resume struct {
	Settling resumeSettling `cmd:"" help:"Resume settling on the chain, which has halted because the chain contradicted the contract."`
	Sweep    resumeSweep    `cmd:"" help:"Permit one sweep that deletes more orphans than its safety limit."`
}

// resumeFlags are the flags of both.
type resumeFlags struct {
	settings.MetaFlags `embed:""`
	Yes                bool `short:"y" env:"-" help:"Do not ask."`
}

type resumeSettling struct{ resumeFlags }

// Run resumes settling, unless it has halted for another reason while the question was open.
func (c *resumeSettling) Run(ctx context.Context, console *cli.Console) error {
	return c.WithMeta(ctx, false, func(ctx context.Context, meta whole.Database) error { return c.resume(ctx, console, meta) })
}

func (c *resumeSettling) resume(ctx context.Context, console *cli.Console, meta whole.Database) error {
	reason, err := meta.Halted(ctx)
	if err != nil {
		return err
	}
	if reason == "" {
		return cli.PrintLine(console.Out, "Settling has not halted.")
	}
	if err := cli.PrintLine(console.Out, "Settling has halted: "+terminal.Text(reason)); err != nil {
		return err
	}
	if err := c.confirm(ctx, console, "Collect and sell again, with that explained and mended?"); err != nil {
		return err
	}
	if err := meta.Resume(ctx, reason); err != nil && !errors.Is(err, database.ErrNotFound) {
		return err
	}
	if reason, err = meta.Halted(ctx); err == nil && reason != "" {
		err = cli.ExitWith(cli.ExitRefused, fmt.Errorf("settling has halted again: %s", terminal.Text(reason)))
	}
	if err != nil {
		return err
	}
	return cli.PrintLine(console.Out, "Settling is resumed.")
}

type resumeSweep struct{ resumeFlags }

// Run permits one large sweep.
func (c *resumeSweep) Run(ctx context.Context, console *cli.Console) error {
	return c.WithMeta(ctx, false, func(ctx context.Context, meta whole.Database) error {
		err := c.confirm(ctx, console, "Let one sweep delete all objects to which nothing refers?")
		if err == nil {
			err = instance.PermitLargeSweep(ctx, meta)
		}
		if err != nil {
			return err
		}
		return cli.PrintLine(console.Out, "The next sweep within a day may delete more orphans than its limit.")
	})
}

func (f *resumeFlags) confirm(ctx context.Context, console *cli.Console, question string) error {
	if f.Yes {
		return nil
	}
	return cli.Confirm(ctx, console, question)
}
