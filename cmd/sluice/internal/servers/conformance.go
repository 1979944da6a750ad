package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/conformance"
)

// Conformance checks whether a server speaks the interface.
type Conformance struct {
	Address string `arg:"" name:"url" optional:"" help:"Base URL of the server, with its base path, in place of --url."`

	Level   string        `env:"-" default:"client" enum:"seed,client,extended" help:"Highest level of cases: seed (the operations), client (what the public client relies on) or extended (all that docs/protocol.md promises). Only extended opens channels."`
	Account string        `env:"-" placeholder:"ACCOUNT" help:"Account for the blobs of the cases. Default: a random address."`
	Match   string        `name:"run" env:"-" placeholder:"REGEXP" help:"Run the cases with a name that matches."`
	List    bool          `env:"-" help:"Print the cases with their levels and sections, and send nothing."`
	JUnit   string        `name:"junit" env:"-" type:"path" placeholder:"FILE" help:"Write a report in JUnit's XML format to this file as well."`
	Jobs    int           `short:"j" env:"-" default:"4" help:"Number of cases that run at once."`
	Timeout time.Duration `env:"-" default:"30s" help:"Time that a request may take."`

	cli.ServerFlags
	cli.OutputFlags
}

// Validate checks the flags.
func (c *Conformance) Validate() error {
	switch {
	case c.Address != "" && c.URL != "":
		return fmt.Errorf("%s and --url both name a server: state one of them", c.Address)
	case c.Jobs < 1 || c.Jobs > 100:
		return fmt.Errorf("--jobs %d: must be from 1 to 100", c.Jobs)
	case c.Timeout < time.Millisecond:
		return fmt.Errorf("--timeout %s: must be at least 1ms", c.Timeout)
	}
	_, err := c.selected()
	return err
}

// selected returns the cases that the flags select.
func (c *Conformance) selected() (conformance.Options, error) {
	var err error
	o := conformance.Options{Account: c.Account, Jobs: c.Jobs, Timeout: c.Timeout}
	if o.Level, err = conformance.ParseLevel(c.Level); err != nil {
		return o, fmt.Errorf("--level: %w", err)
	}
	if o.Match, err = regexp.Compile(c.Match); err != nil {
		return o, fmt.Errorf("--run: %w", err)
	}
	if len(o.Cases()) == 0 {
		return o, fmt.Errorf("--run %s: no case of the level %s has such a name", c.Match, c.Level)
	}
	return o, nil
}

// Run runs the cases and prints their results.
func (c *Conformance) Run(ctx context.Context, console *cli.Console) error {
	o, err := c.selected()
	if err != nil {
		return cli.ExitWith(cli.ExitUsage, err)
	}
	if c.List {
		return c.list(console, o.Cases())
	}
	if c.Address != "" {
		c.URL = c.Address
	}
	server, err := c.Server("")
	if err != nil {
		return err
	}
	o.URL, o.Key = server.URL, server.Key
	if o.RootCAs, err = c.Roots(); err != nil {
		return err
	}
	var printed error
	report, err := conformance.Run(ctx, o, func(r conformance.Result) { printed = errors.Join(printed, c.print(console, r)) })
	if errors.Is(err, conformance.ErrUnusable) {
		return cli.About(server.URL, err)
	}
	return errors.Join(err, printed, c.conclude(console, report))
}

// list prints the cases.
func (c *Conformance) list(console *cli.Console, cases []conformance.Case) error {
	table := c.Table(console, "")
	for _, one := range cases {
		if err := table.Row(one, one.Name, one.Level.String(), one.Section); err != nil {
			return err
		}
	}
	return table.Flush()
}

// print prints a case's result.
func (c *Conformance) print(console *cli.Console, r conformance.Result) error {
	switch {
	case c.JSON:
		return terminal.WriteJSON(console.Out, r)
	case r.Outcome == conformance.Failed:
		return cli.PrintLine(console.Out, "FAIL  "+r.Name+"\n      "+terminal.Text(r.Reason))
	case c.Quiet:
		return nil
	case r.Outcome == conformance.Skipped:
		return cli.PrintLine(console.Out, "skip  "+r.Name+": "+terminal.Text(r.Reason))
	default:
		return cli.PrintLine(console.Out, "ok    "+r.Name)
	}
}

// conclude prints the sums and writes the report. It returns an error unless the server conforms.
func (c *Conformance) conclude(console *cli.Console, report conformance.Report) error {
	if c.JUnit != "" {
		if err := writeJUnit(c.JUnit, &report); err != nil {
			return err
		}
	}
	var err error
	if c.JSON {
		err = terminal.WriteJSON(console.Out, report)
	} else {
		err = cli.PrintLine(console.Out, fmt.Sprintf("%d passed, %d failed, %d skipped: %d requests in %.1f s",
			report.Passed, report.Failed, report.Skipped, report.Requests, report.Seconds))
		if report.Level < conformance.Extended && c.Match == "" {
			err = errors.Join(err, c.Remark(console, "more cases have the level extended: --level extended"))
		}
	}
	if report.Failed > 0 {
		err = errors.Join(err, fmt.Errorf("%s does not conform: %d of %d cases failed", report.URL, report.Failed, report.Passed+report.Failed))
	}
	if len(report.Left) > 0 {
		err = errors.Join(err, fmt.Errorf("could not be removed: %s", strings.Join(report.Left, ", ")))
	}
	return err
}

// writeJUnit writes a report into a file, which appears as a whole.
func writeJUnit(name string, report *conformance.Report) error {
	file, err := os.CreateTemp(filepath.Dir(name), ".junit-*")
	if err != nil {
		return err
	}
	err = errors.Join(report.WriteJUnit(file), file.Chmod(0o644), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
