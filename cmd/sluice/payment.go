package main

import (
	"errors"
	"fmt"
	"io"
	"sluice/client"
	"sluice/cmd/sluice/internal/terminal"
	"text/tabwriter"
	"time"
)

// paymentCommand has the flags that session and channel commands share.
type paymentCommand struct {
	serverFlags
	outputFlags
}

// client returns a client for the server.
func (c *paymentCommand) client(console *console) (*client.Client, error) {
	return c.serverFlags.client(console, "")
}

// print prints the id alone to stdout, and the rest to stderr.
func (c *paymentCommand) print(console *console, s client.Session) error {
	if c.JSON {
		return terminal.WriteJSON(console.out, printedSession{s.ID, s.UserIdentity, s.ChunksetsLeft, s.ChunksetsTotal, s.Created, s.Expires})
	}
	return errors.Join(printLine(console.out, terminal.Text(s.ID)),
		c.remark(console, fmt.Sprintf("%d of %d chunksets left, expires %s", s.ChunksetsLeft, s.ChunksetsTotal, s.Expires.UTC().Format(time.RFC3339))))
}

// printTable prints names and values.
func printTable(out io.Writer, lines [][2]string) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var errs []error
	for _, line := range lines {
		_, err := fmt.Fprintf(table, "%s\t%s\n", line[0], terminal.Text(line[1]))
		errs = append(errs, err)
	}
	return errors.Join(append(errs, table.Flush())...)
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
