package payments

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/terminal"
)

// Session manages sessions: counts of chunksets.
type Session struct {
	Create sessionCreate `cmd:"" help:"Create a session on a local instance, which grants it. On other instances use sluice pay."`
	Use    sessionUse    `cmd:"" help:"Deduct one chunkset from a session, and print how many are left."`
	Show   sessionShow   `cmd:"" help:"Print how much a session has left."`
}

type sessionCreate struct {
	paymentCommand

	UserIdentity string `env:"-" placeholder:"TEXT" help:"A text of 1 to 255 bytes that the session shows."`
}

// Run creates the session.
func (c *sessionCreate) Run(ctx context.Context, console *cli.Console) error {
	return c.session(console, func(of *client.Client) (client.Session, error) {
		s, err := of.CreateSession(ctx, client.CreateSessionOptions{UserIdentity: c.UserIdentity})
		if errors.Is(err, client.ErrPaymentRequired) {
			err = fmt.Errorf("%w; sluice pay buys a session", err)
		}
		return s, err
	})
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

// Run deducts a chunkset and prints how many are left.
func (c *sessionUse) Run(ctx context.Context, console *cli.Console) error {
	of, err := c.client(console)
	if err != nil {
		return err
	}
	left, err := of.Use(ctx, c.ID, client.UseOptions{IdempotencyKey: c.IdempotencyKey})
	if err != nil {
		return err
	}
	return c.Result(console, map[string]int64{"chunksetsLeft": left}, strconv.FormatInt(left, 10))
}

type sessionShow struct{ oneSession }

// Run prints the session.
func (c *sessionShow) Run(ctx context.Context, console *cli.Console) error {
	of, err := c.client(console)
	if err != nil {
		return err
	}
	s, err := of.Session(ctx, c.ID)
	if err != nil {
		return err
	}
	return c.Facts(console, newPrintedSession(s), [][2]string{
		{"session", s.ID},
		{"chunksets left", strconv.FormatInt(s.ChunksetsLeft, 10)},
		{"chunksets bought", strconv.FormatInt(s.ChunksetsTotal, 10)},
		{"user identity", s.UserIdentity},
		{"created", cli.TimeText(s.Created)},
		{"expires", cli.TimeText(s.Expires)},
	})
}

// paymentCommand has the flags that session and channel commands share.
type paymentCommand struct {
	cli.ServerFlags
	cli.OutputFlags
}

// client returns a client for the server.
func (c *paymentCommand) client(console *cli.Console) (*client.Client, error) {
	return c.Client(console, "")
}

// session calls fn, and prints the session's id alone to stdout, and the rest to stderr.
func (c *paymentCommand) session(console *cli.Console, fn func(of *client.Client) (client.Session, error)) error {
	of, err := c.client(console)
	if err != nil {
		return err
	}
	s, err := fn(of)
	if err != nil {
		return err
	}
	return c.ResultWithRemarks(console, newPrintedSession(s), terminal.Text(s.ID), leftIn(s))
}

func leftIn(s client.Session) string {
	return fmt.Sprintf("%d of %d chunksets left, expires %s", s.ChunksetsLeft, s.ChunksetsTotal, cli.TimeText(s.Expires))
}

// printedSession is a session in JSON.
type printedSession struct {
	SessionID      string    `json:"sessionId"`
	UserIdentity   string    `json:"userIdentity,omitempty"`
	ChunksetsLeft  int64     `json:"chunksetsLeft"`
	ChunksetsTotal int64     `json:"chunksetsTotal"`
	Created        time.Time `json:"created"`
	Expires        time.Time `json:"expires"`
}

func newPrintedSession(s client.Session) printedSession {
	return printedSession{s.ID, s.UserIdentity, s.ChunksetsLeft, s.ChunksetsTotal, s.Created, s.Expires}
}
