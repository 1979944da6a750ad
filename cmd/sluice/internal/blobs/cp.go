package blobs

import (
	"context"
	"errors"
	"fmt"

	"sluice/client/folder"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/payments"
	"sluice/cmd/sluice/internal/terminal"
)

// Cp copies between this machine and servers, and between servers.
type Cp struct {
	Sources cli.Sources[cli.LocalOrRemote] `arg:"" name:"source..." help:"File, folder, -, ACCOUNT/NAME or CONTEXT:ACCOUNT/NAME. Several are possible."`
	Target  cli.LocalOrRemote              `arg:"" name:"target" help:"The same. A target that ends in / keeps the source's name."`

	Recursive bool `short:"r" env:"-" help:"Copy a folder, or all blobs below a prefix. Of several, each keeps its own name, too."`
	versionFlag

	cli.ServerFlags
	cli.OutputFlags
	writeFlags
	lockFlags
	payments.ReadFlags
	transferFlags
}

// AfterApply decides which operands are remote.
func (c *Cp) AfterApply() error {
	all := []*cli.LocalOrRemote{&c.Target}
	for i := range c.Sources.All {
		all = append(all, &c.Sources.All[i])
	}
	cli.Resolve(all...)
	return nil
}

// Run copies.
func (c *Cp) Run(ctx context.Context, console *cli.Console) error {
	paths, blobs, err := c.sources()
	if err != nil {
		return err
	}
	if err := c.check(len(blobs), c.Recursive); err != nil {
		return err
	}
	t := transfer{console: console, server: &c.ServerFlags, output: c.OutputFlags, writes: &c.writeFlags, locks: &c.lockFlags, reads: &c.ReadFlags, flags: &c.transferFlags, folders: c.Recursive}
	b, err := t.batch(ctx, folder.Options{}, c.Sources.All[0].Operand, c.Target.Operand)
	if err != nil {
		return err
	}
	b.version = c.versionFlag
	b.remarkAssumed(c.Sources.All[0], c.Target)
	switch {
	case paths != nil:
		err = b.storeAll(ctx, paths, *c.Target.Remote, c.Recursive)
	case c.Target.Remote == nil:
		err = b.readAll(ctx, blobs, c.Target.Path, c.Recursive)
	default:
		err = b.copyAll(ctx, blobs, *c.Target.Remote, c.Recursive)
	}
	return b.end(ctx, err)
}

// sources returns the sources, which are all local or all on one server.
func (c *Cp) sources() (paths []string, blobs []operand.Remote, err error) {
	first := c.Sources.All[0].Operand
	for _, source := range c.Sources.All {
		switch {
		case source.Remote == nil && c.Target.Remote == nil:
			return nil, nil, bothLocal(source.Operand, c.Target.Operand)
		case (source.Remote == nil) != (first.Remote == nil) || source.Remote != nil && source.Remote.Context != first.Remote.Context:
			return nil, nil, otherServer(first, source.Operand)
		case source.Remote == nil:
			paths = append(paths, source.Path)
		default:
			blobs = append(blobs, *source.Remote)
		}
	}
	return paths, blobs, nil
}

func otherServer(a, b operand.Operand) error {
	return cli.Usagef("%s and %s are not on one server: copy from one after another", terminal.Name(a.String()), terminal.Name(b.String()))
}

// bothLocal is the error of a copy without a remote side. It names the operand that may have been
// meant to be remote.
func bothLocal(source, target operand.Operand) error {
	advice := "want ACCOUNT/NAME for one of them"
	for _, path := range []string{source.Path, target.Path} {
		if _, ok := cli.MayBeRemote(path); ok {
			advice = fmt.Sprintf("did you mean :%s, which is on the current server? CONTEXT:ACCOUNT/NAME is on another", terminal.Name(path))
		}
	}
	return cli.Usagef("%s and %s are both local: %s", terminal.Name(source.Path), terminal.Name(target.Path), advice)
}

// remarkAssumed prints which of two possible meanings the target of a copy from a server has.
func (b *batch) remarkAssumed(source, target cli.LocalOrRemote) {
	switch {
	case !source.Assumed:
	case target.Assumed:
		b.remark(fmt.Sprintf("%s and %s are on %s: a local path begins with ./", terminal.Name(source.Remote.String()), terminal.Name(target.Remote.String()), b.to.URL()))
	case ifRemote(target.Path) != "":
		name := terminal.Name(target.Path)
		b.remark(fmt.Sprintf("%s is local, because its first folder exists here: write :%s for the server's", name, name))
	}
}

// copyAll copies blobs, or with recursive the blobs below prefixes. Of several, those that do not
// exist fail by themselves.
func (b *batch) copyAll(ctx context.Context, sources []operand.Remote, to operand.Remote, recursive bool) error {
	several := len(sources) > 1
	if several {
		var operands, names []string
		for _, from := range sources {
			operands, names = append(operands, from.String()), append(names, cli.KeptName(from))
		}
		if err := checkDistinct(operands, names, to); err != nil {
			return err
		}
	}
	for _, from := range sources {
		target := to
		if several || !recursive && to.Folder() {
			target = cli.Below(cli.AsFolder(to), cli.KeptName(from))
		}
		if err := b.orRefuse(several, from, b.addCopy(ctx, from, target, recursive)); err != nil {
			return err
		}
	}
	return b.run(ctx)
}

// addCopy adds a blob, or the blobs below a prefix.
func (b *batch) addCopy(ctx context.Context, from, to operand.Remote, recursive bool) error {
	switch {
	case recursive:
		err := b.Copy(ctx, b.prefix(b.from, cli.AsFolder(from)), b.prefix(b.to, cli.AsFolder(to)))
		if errors.Is(err, folder.ErrEmpty) {
			return b.nothingAt(cli.AsFolder(from))
		}
		return b.listError(err)
	case from.Folder():
		return cli.Usagef("%s is not a blob: use -r to copy all blobs below it", terminal.Name(from.String()))
	}
	if b.version.Version != "" {
		e, err := b.version.find(ctx, b.from, from)
		if err == nil && e.Deleted {
			err = errNoVersion
		}
		if err != nil {
			return blobError(from, err)
		}
		b.CopyBlob(b.source(from), e.Blob, b.item(b.to, to))
		return nil
	}
	found, err := listed(ctx, b.from, from)
	switch {
	case err != nil:
		return blobError(from, err)
	case found == nil:
		return blobError(from, withBelow(ctx, b.from, from, cli.ExitWith(cli.ExitNotFound, errors.New("the blob does not exist")), "use -r"))
	}
	b.CopyBlob(b.item(b.from, from), *found, b.item(b.to, to))
	return nil
}
