package main

import (
	"context"
	"errors"
	"fmt"

	"sluice/instance"
	"sluice/internal/datadir"
	"sluice/internal/node"
	"sluice/internal/storage"
	"sluice/internal/terminal"
)

// resetCommand deletes a local instance. It reads the settings of serve that say where the instance
// is.
type resetCommand struct {
	Config  configFlag `placeholder:"FILE" help:"YAML file with the flags of serve. It must not describe a hosted instance, or one whose data is elsewhere."`
	Data    string     `default:"${data}" help:"Data folder of the instance."`
	Profile string     `hidden:"" placeholder:"PROFILE" help:"Profile with which the instance is served: only local is possible."`
	Meta    string     `hidden:"" placeholder:"DSN" help:"Database of the instance: none is possible."`
	Bytes   string     `hidden:"" placeholder:"DSN" help:"Object store of the instance: none is possible."`
	Yes     bool       `short:"y" env:"-" help:"Do not ask."`
}

// Help describes the command and returns examples.
func (resetCommand) Help() string {
	return `Deletes all blobs, uploads, sessions and channels of a local instance, which must not be
running. Nothing but the data folder is touched. An instance with API keys, or one that has run
with --profile hosted, is refused, and so is one whose data is not all in the folder.

` + examples("sluice reset", "sluice reset --data ./data --yes")
}

// Validate refuses what is not a local instance in a folder.
func (c *resetCommand) Validate() error {
	switch {
	case c.Profile != "" && c.Profile != string(node.Local):
		return errors.New("--profile: reset deletes local instances only")
	case c.Meta != "" || c.Bytes != "":
		return errors.New("reset deletes the data folder of a local instance, and not what is stored elsewhere: --meta and --bytes are not possible")
	case c.Data == "":
		return errors.New("--data: must not be empty")
	}
	return nil
}

// Run asks, and deletes the instance.
func (c *resetCommand) Run(ctx context.Context, console *console) error {
	confirmed := func() error {
		if c.Yes {
			return nil
		}
		return confirm(ctx, console, fmt.Sprintf("Delete everything that is stored in %s?", terminal.Name(c.Data)))
	}
	err := instance.Reset(ctx, c.Data, confirmed)
	switch {
	case errors.Is(err, instance.ErrHosted):
		return exitWith(exitRefused, fmt.Errorf("the instance in %s is not reset: %w; stop its nodes, and remove the folder yourself", c.Data, err))
	case errors.Is(err, datadir.ErrInUse):
		return exitWith(exitRefused, err)
	case errors.Is(err, storage.ErrNoInstance):
		return exitWith(exitNotFound, err)
	case err != nil:
		return err
	}
	return printLine(console.out, fmt.Sprintf("Deleted what was stored in %s.", terminal.Name(c.Data)))
}
