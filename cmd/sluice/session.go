package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/terminal"
)

// sessionCommand manages sessions: counts of chunksets.
type sessionCommand struct {
	Create sessionCreate `cmd:"" help:"Create a session on a local instance, which grants it. On other instances use sluice pay."`
	Use    sessionUse    `cmd:"" help:"Deduct one chunkset from a session, and print how many are left."`
	Show   sessionShow   `cmd:"" help:"Print how much a session has left."`
}

type sessionCreate struct {
	paymentCommand

	UserIdentity string `env:"-" placeholder:"TEXT" help:"A text of 1 to 255 bytes that the session shows."`
}

// Help returns examples.
func (sessionCreate) Help() string {
	return examples("sluice session create", "sluice session create --user-identity alice --json")
}

// Run creates the session.
func (c *sessionCreate) Run(ctx context.Context, console *console) error {
	of, err := c.client(console)
	if err != nil {
		return err
	}
	s, err := of.CreateSession(ctx, client.CreateSessionOptions{UserIdentity: c.UserIdentity})
	if errors.Is(err, client.ErrPaymentRequired) {
		return fmt.Errorf("%w; sluice pay buys a session", err)
	}
	if err != nil {
		return err
	}
	return c.print(console, s)
}

// oneSession is a command on one session.
type oneSession struct {
	ID string `arg:"" name:"id" help:"Id of the session."`

	paymentCommand
}

type sessionUse struct {
	oneSession

	IdempotencyKey string `env:"-" placeholder:"KEY" help:"Name of this use, of 1 to 255 visible ASCII characters: calls with the same one within 24 hours deduct one chunkset together."`
}

// Help returns examples.
func (sessionUse) Help() string {
	return examples("sluice session use 2GLUCHDRUOIUYVSV4EBFZZUCZK", "sluice session use 2GLUCHDRUOIUYVSV4EBFZZUCZK --idempotency-key invoice-17")
}

// Run deducts a chunkset and prints how many are left.
func (c *sessionUse) Run(ctx context.Context, console *console) error {
	of, err := c.client(console)
	if err != nil {
		return err
	}
	left, err := of.Use(ctx, c.ID, client.UseOptions{IdempotencyKey: c.IdempotencyKey})
	if err != nil {
		return err
	}
	if c.JSON {
		return terminal.WriteJSON(console.out, map[string]int64{"chunksetsLeft": left})
	}
	return printLine(console.out, strconv.FormatInt(left, 10))
}

type sessionShow struct{ oneSession }

// Help returns examples.
func (sessionShow) Help() string { return examples("sluice session show 2GLUCHDRUOIUYVSV4EBFZZUCZK") }

// Run prints the session.
func (c *sessionShow) Run(ctx context.Context, console *console) error {
	of, err := c.client(console)
	if err != nil {
		return err
	}
	s, err := of.Session(ctx, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.print(console, s)
	}
	lines := [][2]string{{"session", s.ID}, {"chunksets left", strconv.FormatInt(s.ChunksetsLeft, 10)}, {"chunksets bought", strconv.FormatInt(s.ChunksetsTotal, 10)}}
	if s.UserIdentity != "" {
		lines = append(lines, [2]string{"user identity", s.UserIdentity})
	}
	return printTable(console.out, append(lines, [2]string{"created", s.Created.UTC().Format(time.RFC3339)}, [2]string{"expires", s.Expires.UTC().Format(time.RFC3339)}))
}
