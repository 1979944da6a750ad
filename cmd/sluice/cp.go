package main

import (
	"context"

	"github.com/alecthomas/kong"

	"sluice/client"
	"sluice/client/folder"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
)

// localOrRemote is an operand for a command that copies.
type localOrRemote struct{ operand.Operand }

// UnmarshalText parses the operand.
func (o *localOrRemote) UnmarshalText(text []byte) (err error) {
	if o.Operand, err = operand.Parse(string(text)); err == nil && o.Remote != nil {
		err = checkRemote(*o.Remote)
	}
	return err
}

// Decode implements kong.MapperValue.
func (o *localOrRemote) Decode(ctx *kong.DecodeContext) error { return decodeText(ctx, o) }

// cpCommand copies between this machine and servers, and between servers.
type cpCommand struct {
	Sources sources[localOrRemote] `arg:"" name:"source..." help:"File, folder, - or CONTEXT:ACCOUNT/NAME; :ACCOUNT/NAME for the current server. Several are possible."`
	Target  localOrRemote          `arg:"" name:"target" help:"The same. A target that ends in / keeps the source's name."`

	Recursive bool `short:"r" env:"-" help:"Copy a folder, or all blobs below a prefix. Of several, each keeps its own name, too."`

	serverFlags
	outputFlags
	writeFlags
	readFlags
	transferFlags
}

// Help returns examples.
func (*cpCommand) Help() string {
	return "Copies of blobs keep their properties, except those that flags set. A server copies its own blobs by itself, if the key may read without payment.\n\n" +
		examples("sluice cp photo.jpg :team/photos/", "sluice cp *.jpg prod:team/photos/", "sluice cp -r prod:team/photos/ ./photos", "sluice cp :team/a.txt :team/b.txt", "sluice cp -r prod:team/photos/ test:team/photos/")
}

// Run copies.
func (c *cpCommand) Run(ctx context.Context, console *console) error {
	paths, blobs, err := c.sources()
	if err != nil {
		return err
	}
	if c.Target.Remote == nil && c.writeFlags.set() {
		return errStoresNothing
	}
	options, err := c.options()
	if err != nil {
		return err
	}
	from, to, err := clientsOf(console, &c.serverFlags, c.bothWays(), c.Sources.all[0].Operand, c.Target.Operand)
	if err != nil {
		return err
	}
	reads, err := c.reads(ctx, console, from)
	if err != nil {
		return err
	}
	transfers := folder.Options{Put: options, Get: reads.downloads(), StateDir: copyStateDir()}
	if err := c.transferFlags.set(&transfers, c.Recursive); err != nil {
		return err
	}
	b := newBatch(console, c.outputFlags, transfers)
	b.reads = reads
	switch {
	case from == nil:
		u := &uploader{to: to, options: options}
		err = u.run(ctx, b, paths, *c.Target.Remote, c.Recursive)
	case to == nil:
		d := &downloader{from: from, reads: reads}
		err = d.run(ctx, b, blobs, c.Target.Path, c.Recursive)
	default:
		copies := &copier{from: from, to: to}
		err = copies.run(ctx, b, blobs, *c.Target.Remote, c.Recursive)
	}
	return b.end(ctx, err)
}

// sources returns the sources, which are all local or all on one server.
func (c *cpCommand) sources() (paths []string, blobs []operand.Remote, err error) {
	first := c.Sources.all[0].Operand
	for _, source := range c.Sources.all {
		switch {
		case source.Remote == nil && c.Target.Remote == nil:
			return nil, nil, bothLocal(source.Operand, c.Target.Operand)
		case (source.Remote == nil) != (first.Remote == nil) || source.Remote != nil && source.Remote.Context != first.Remote.Context:
			return nil, nil, usagef("%s and %s are not on one server: copy from one after another", terminal.Name(first.String()), terminal.Name(source.String()))
		case source.Remote == nil:
			paths = append(paths, source.Path)
		default:
			blobs = append(blobs, *source.Remote)
		}
	}
	return paths, blobs, nil
}

func bothLocal(source, target operand.Operand) error {
	return usagef("%s and %s are both local: did you mean :%s, which is on the current server? CONTEXT:ACCOUNT/NAME is on another", terminal.Name(source.Path), terminal.Name(target.Path), terminal.Name(target.Path))
}

// clientsOf returns clients for the servers of two operands, or one client if they have the same
// context, with options that they share. For a local one it returns nil.
func clientsOf(console *console, f *serverFlags, o client.Options, source, target operand.Operand) (from, to *client.Client, err error) {
	if source.Remote != nil {
		if from, err = f.clientWith(console, source.Remote.Context, o); err != nil {
			return nil, nil, err
		}
	}
	if source.Remote != nil && target.Remote != nil && source.Remote.Context == target.Remote.Context {
		return from, from, nil
	}
	if target.Remote != nil {
		if to, err = f.clientWith(console, target.Remote.Context, o); err != nil {
			return nil, nil, err
		}
	}
	return from, to, nil
}
