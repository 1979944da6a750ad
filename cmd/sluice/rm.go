package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"sluice/client"
	"sluice/internal/operand"
	"sluice/internal/terminal"
	"sluice/internal/units"
)

// rmCommand deletes blobs.
type rmCommand struct {
	Blobs []remoteOperand `arg:"" name:"blob" help:"ACCOUNT/NAME, or ACCOUNT/PREFIX/ with -r. Several are possible."`

	Recursive bool `short:"r" env:"-" help:"Delete all blobs below the prefix. The command asks before."`
	Yes       bool `short:"y" env:"-" help:"Do not ask."`

	serverFlags
	outputFlags
}

// Help returns examples.
func (rmCommand) Help() string {
	return examples("sluice rm team/photos/photo.jpg", "sluice rm -r team/photos/", "sluice rm -r --yes team/tmp/")
}

// Run deletes the blobs.
func (c *rmCommand) Run(ctx context.Context, console *console) error {
	for _, of := range c.Blobs {
		if of.Folder() && !c.Recursive {
			return usagef("%s is not a blob: use -r to delete all blobs below it", terminal.Name(of.String()))
		}
	}
	on, err := c.client("")
	if err != nil {
		return err
	}
	b := newBatch(console, c.outputFlags)
	return b.end(ctx, c.run(ctx, b, on))
}

func (c *rmCommand) run(ctx context.Context, b *batch, on *client.Client) error {
	if !c.Recursive {
		var jobs []job
		for _, of := range c.Blobs {
			jobs = append(jobs, deletion(on, of.Remote, true))
		}
		b.run(ctx, jobs)
		return nil
	}
	var jobs []job
	total := int64(0)
	for _, of := range c.Blobs {
		prefix := asFolder(of.Remote)
		before := len(jobs)
		for e, err := range on.List(ctx, prefix.Account, client.ListOptions{Prefix: prefix.Name}) {
			if err != nil {
				return blobError(prefix, err)
			}
			total += e.Size
			jobs = append(jobs, deletion(on, operand.Remote{Account: prefix.Account, Name: e.Name}, false))
		}
		if len(jobs) == before {
			return exitWith(exitNotFound, fmt.Errorf("there are no blobs below %s; nothing was deleted", terminal.Name(prefix.String())))
		}
	}
	if !c.Yes {
		question := fmt.Sprintf("Delete %d blobs (%s)?", len(jobs), units.Bytes(total))
		if err := confirm(ctx, b.console, question); err != nil {
			return err
		}
	}
	b.run(ctx, jobs)
	return nil
}

// partlyDeleted says what an interrupted deletion has left behind.
const partlyDeleted = "some may be deleted"

// deletion returns the job that deletes a blob. If it must exist, it is an error if there is none, unless
// the key only permits writes: then the job cannot look for it.
func deletion(on *client.Client, of operand.Remote, mustExist bool) job {
	return job{source: of.String(), verb: verbDelete, ifInterrupted: partlyDeleted, run: func(ctx context.Context, _ *terminal.Transfer) (done, error) {
		if mustExist {
			if _, err := head(ctx, on, of); err != nil && !anyOf(err, client.ErrForbidden, client.ErrUnauthorized) {
				return done{}, err
			}
		}
		return done{}, on.Delete(ctx, of.Account, of.Name, client.DeleteOptions{})
	}}
}

// confirm asks a question on the terminal. It returns an error if the response is not yes, or if there
// is no terminal to ask on.
func confirm(ctx context.Context, console *console, question string) error {
	if !isTerminal(console.in) {
		return usagef("standard input is not a terminal to confirm on: use --yes to delete without a question; nothing was deleted")
	}
	return askOn(interruptible(ctx, console.in), console.err, question)
}

func askOn(in io.Reader, out io.Writer, question string) error {
	if _, err := fmt.Fprintf(out, "%s [y/N] ", question); err != nil {
		return err
	}
	response, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(response)) {
	case "y", "yes":
		return nil
	default:
		return errors.New("nothing was deleted")
	}
}
