package instances

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/settings"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/instance"
	"sluice/internal/datadir"
	"sluice/internal/units"
	"sluice/node"
	"sluice/paychan"
)

// Recover adopts an instance that was set back.
type Recover struct {
	settings.InstanceFlags `embed:""`
	Report                 string `env:"-" placeholder:"FILE" help:"File to create with the output."`
	Release                bool   `env:"-" help:"Let sweeps delete objects that an earlier recovery keeps, and do nothing else."`
	Yes                    bool   `short:"y" env:"-" help:"Do not ask."`

	ChainURL        []string      `name:"chain-url" placeholder:"URL" help:"${chain-url_help}"`
	ChainAPIKeyFile string        `name:"chain-api-key-file" placeholder:"FILE" type:"path" help:"${chain-api-key-file_help}"`
	Chain           paychan.Chain `placeholder:"NAME" default:"localnet" help:"${chain_help}"`

	cli.OutputFlags
}

// Run recovers the instance.
func (c *Recover) Run(ctx context.Context, console *cli.Console) (err error) {
	if c.Release {
		if err := instance.ReleaseObjects(ctx, c.Location()); err != nil {
			return err
		}
		return cli.PrintLine(console.Out, "The next sweep deletes objects that nothing refers to.")
	}
	read, err := c.reader()
	if err != nil {
		return err
	}
	out, recovered := console.Out, false
	if c.JSON {
		out = console.Err
	}
	if c.Report != "" {
		report, openErr := os.OpenFile(c.Report, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if openErr != nil {
			return fmt.Errorf("--report: %w", openErr)
		}
		defer func() {
			if err = errors.Join(err, report.Sync(), report.Close()); err != nil && !recovered {
				err = errors.Join(err, os.Remove(c.Report)) // the same command can be run again
			}
		}()
		out = io.MultiWriter(out, report)
	}
	found, generation, err := instance.Recover(ctx, c.Location(), instance.RecoverOptions{ReadChannels: read, Confirm: func(found instance.Setback) error {
		if err := cli.PrintLine(out, strings.Join(append(describeSetback(found, read != nil), linesOfReturned(c.Location(), found.Returned)...), "\n")); err != nil || c.Yes {
			return err
		}
		return cli.Confirm(ctx, console, "Continue with the instance as it is, without what was lost?")
	}})
	switch {
	case errors.Is(err, instance.ErrNotSetBack), errors.Is(err, datadir.ErrInUse):
		return cli.ExitWith(cli.ExitRefused, err)
	case err != nil:
		return err
	}
	recovered = true
	err = cli.PrintLine(out, fmt.Sprintf("Generation %d has begun: changes are accepted.", generation))
	if c.JSON && err == nil {
		err = terminal.WriteJSON(console.Out, printedRecovery{generation, strings.Split(strings.TrimSpace(found.Seen), "\n"), found.Unknown, found.Missing, found.DamagedBlobs, len(found.Unread), found.Returned})
	}
	if err != nil || len(found.Unread) == 0 {
		return err
	}
	return cli.ExitWith(cli.ExitPartly, errors.New("some channels could not be read from the chain: sluice channel reconcile ID --write reads one later"))
}

// printedRecovery is the result in JSON.
type printedRecovery struct {
	Generation   int64             `json:"generation"`
	Seen         []string          `json:"seen"`    // how it was seen that the instance was set back
	Unknown      int64             `json:"unknown"` // objects that nothing refers to
	Missing      int64             `json:"missing"` // objects
	DamagedBlobs int64             `json:"damagedBlobs"`
	Unread       int               `json:"unread"` // senders with channels that could not be read
	Returned     instance.Returned `json:"returned"`
}

// reader returns the function that reads channels from the chain, or nil without one.
func (c *Recover) reader() (instance.ReadChannels, error) {
	if len(c.ChainURL) == 0 {
		return nil, nil
	}
	read, err := (&node.Config{
		Payments: node.Payments{PaidOn: c.Chain},
		Chain:    node.Chain{ChainURLs: c.ChainURL, ChainAPIKeyFile: c.ChainAPIKeyFile},
	}).ChannelReader()
	if err != nil {
		return nil, cli.Usagef("--chain-url: %w", err)
	}
	return read, nil
}

// describeSetback returns lines with the known facts.
func describeSetback(f instance.Setback, chain bool) []string {
	var lines []string
	add := func(format string, values ...any) { lines = append(lines, fmt.Sprintf(format, values...)) }
	add("The instance is in generation %d.", f.Generation)
	for line := range strings.Lines(f.Seen) {
		add("Seen by %s", strings.TrimSuffix(line, "\n"))
	}
	if !f.Holds {
		add("Another database holds the bytes, or held them last. It will be fenced.")
	}
	if f.Unknown > 0 {
		add("Objects that nothing refers to: %d, with %s, made from %s to %s. They are kept for %d days.", f.Unknown, units.Bytes(f.UnknownBytes),
			f.First.UTC().Format(time.RFC3339), f.Last.UTC().Format(time.RFC3339), instance.KeptFor/(24*time.Hour))
	}
	if f.Missing > 0 {
		add("Objects that are missing or damaged: %d, with %s. Blobs that cannot be read: %s.", f.Missing, units.Bytes(f.MissingBytes), f.Count())
		for _, b := range f.Blobs {
			add("  %s", terminal.Name(b))
		}
		if more := f.DamagedBlobs - int64(len(f.Blobs)); more > 0 {
			add("  and %d others", more)
		}
	}
	if chain {
		add("Channels that were read from the chain: %d. Units that were withdrawn and not known here: %d.", f.Channels, f.Withdrawn)
		for _, id := range f.WithdrawnFrom {
			add("  %s", id)
		}
		for _, u := range f.Unread {
			add("Channels of %s that could not be read, and stay as they are: %d: %s", terminal.Name(u.Sender), u.Channels, terminal.Text(u.Err.Error()))
		}
	}
	add("What clients had got acknowledged and is not here is lost: blobs, deletions, sessions, uses, payments, keys and revocations.")
	add("An idempotency key from then has an effect again. An id from then is answered with lost_in_rollback.")
	return lines
}
