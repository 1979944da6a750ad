package servers

import (
	"context"
	"fmt"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
)

// Health is a probe for containers: it needs no other program.
type Health struct {
	cli.ServerFlags
	cli.OutputFlags

	Timeout time.Duration `env:"-" default:"5s" help:"Time after which the service is not healthy."`
}

// Run returns an error unless the service responds that it can store and read blobs.
func (c *Health) Run(ctx context.Context, console *cli.Console) error {
	probe, err := c.ClientWith(console, "", client.Options{MaxAttempts: 1})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("no response within %s", c.Timeout))
	defer cancel()
	if err = probe.Ready(ctx); err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return cli.About(probe.URL()+" is not healthy", err)
	}
	if c.Quiet && !c.JSON {
		return nil
	}
	return c.Result(console, map[string]any{"url": probe.URL(), "ready": true}, "ready")
}
