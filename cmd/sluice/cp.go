package main

import (
	"context"

	"sluice/client"
	"sluice/internal/operand"
	"sluice/internal/terminal"
)

// localOrRemote is an operand of a command that copies.
type localOrRemote struct{ operand.Operand }

// UnmarshalText parses the operand.
func (o *localOrRemote) UnmarshalText(text []byte) (err error) {
	o.Operand, err = operand.Parse(string(text))
	return err
}

// cpCommand copies between this machine and servers, and between servers.
type cpCommand struct {
	Source localOrRemote `arg:"" name:"source" help:"File, folder, - or CONTEXT:ACCOUNT/NAME; :ACCOUNT/NAME for the current server."`
	Target localOrRemote `arg:"" name:"target" help:"The same. What ends in / keeps the name of the source."`

	Recursive bool `short:"r" env:"-" help:"Copy a folder, or all blobs below a prefix."`

	serverFlags
	outputFlags
	writeFlags
	readFlags
}

// Help returns examples.
func (*cpCommand) Help() string {
	return "Copies between servers keep the properties of a blob, except those that flags set.\n\n" +
		examples("sluice cp photo.jpg :team/photos/", "sluice cp -r prod:team/photos/ ./photos", "sluice cp -r prod:team/photos/ test:team/photos/")
}

// Run copies.
func (c *cpCommand) Run(ctx context.Context, console *console) error {
	source, target := c.Source.Remote, c.Target.Remote
	if source == nil && target == nil {
		return bothLocal(c.Source.Operand, c.Target.Operand)
	}
	if target == nil && c.set() {
		return errStoresNothing
	}
	options, err := c.options()
	if err != nil {
		return err
	}
	b := newBatch(console, c.outputFlags)
	return b.end(ctx, c.run(ctx, b, options))
}

func (c *cpCommand) run(ctx context.Context, b *batch, options client.PutOptions) error {
	from, to, err := clientsOf(&c.serverFlags, c.Source.Operand, c.Target.Operand)
	if err != nil {
		return err
	}
	if b.reads, err = c.reads(ctx, from); err != nil {
		return err
	}
	switch {
	case from == nil:
		u := &uploader{to: to, options: options}
		return u.add(ctx, b, c.Source.Path, *c.Target.Remote, c.Recursive)
	case to == nil:
		d := &downloader{from: from, reads: b.reads}
		return d.add(ctx, b, *c.Source.Remote, c.Target.Path, c.Recursive)
	case c.Recursive:
		copies := &copier{from: from, to: to, reads: b.reads, flags: &c.writeFlags}
		return copies.tree(ctx, b, asFolder(*c.Source.Remote), asFolder(*c.Target.Remote))
	case c.Source.Remote.Folder():
		return usagef("%s is not a blob: use -r to copy all blobs below it", terminal.Name(c.Source.String()))
	default:
		copies := &copier{from: from, to: to, reads: b.reads, flags: &c.writeFlags}
		return copies.blob(ctx, b, *c.Source.Remote, *c.Target.Remote)
	}
}

func bothLocal(source, target operand.Operand) error {
	return usagef("%s and %s are both local: want CONTEXT:ACCOUNT/NAME, or :ACCOUNT/NAME for the current server", terminal.Name(source.Path), terminal.Name(target.Path))
}

// clientsOf returns clients of the servers of two operands. That of a local one is nil.
func clientsOf(f *serverFlags, source, target operand.Operand) (from, to *client.Client, err error) {
	if source.Remote != nil {
		if from, err = f.client(source.Remote.Context); err != nil {
			return nil, nil, err
		}
	}
	if target.Remote != nil {
		if to, err = f.client(target.Remote.Context); err != nil {
			return nil, nil, err
		}
	}
	return from, to, nil
}
