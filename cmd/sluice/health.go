package main

import (
	"context"
	"fmt"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/terminal"
)

// healthCommand is a probe for containers: it needs no other program.
type healthCommand struct {
	serverFlags
	outputFlags

	Timeout time.Duration `env:"-" default:"5s" help:"Time after which the service is not healthy."`
}

// Help returns examples.
func (healthCommand) Help() string {
	return examples("sluice health", "sluice health --url https://blobs.example.org/sluice --timeout 2s")
}

// Run returns an error unless the service responds that it can store and read blobs.
func (c *healthCommand) Run(ctx context.Context, console *console) error {
	server, err := c.server()
	if err != nil {
		return err
	}
	server.Key = "" // /readyz is for everybody
	roots, err := c.roots()
	if err != nil {
		return err
	}
	probe, err := newClient(console, server, client.Options{MaxAttempts: 1, RootCAs: roots})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("no response within %s", c.Timeout))
	defer cancel()
	err = probe.Ready(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return about(server.URL+" is not healthy", context.Cause(ctx))
	case err != nil:
		return about(server.URL+" is not healthy", err)
	case c.JSON:
		return terminal.WriteJSON(console.out, map[string]any{"url": server.URL, "ready": true})
	case c.Quiet:
		return nil
	default:
		return printLine(console.out, "ready")
	}
}
