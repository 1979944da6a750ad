package blobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sluice/client"
	"sluice/client/folder"
	"sluice/client/folder/tree"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/payments"
	"sluice/cmd/sluice/internal/terminal"
)

// Get reads blobs into files.
type Get struct {
	Sources cli.Sources[cli.RemoteOperand] `arg:"" name:"blob..." help:"ACCOUNT/NAME, or ACCOUNT/PREFIX/ with -r. Several are possible."`
	Target  string                         `arg:"" name:"file" default:"." words:"" help:"File, folder, or - for standard output. Default: the current folder."`

	Recursive bool `short:"r" env:"-" help:"Read all blobs below the prefix into a folder. It is created if needed. Of several, each keeps its own name, too."`
	DryRun    bool `short:"n" env:"-" help:"Print the changes that would be made, and make none."`
	versionFlag

	cli.ServerFlags
	cli.OutputFlags
	payments.ReadFlags
	transferFlags
}

// Run reads the blobs.
func (c *Get) Run(ctx context.Context, console *cli.Console) error {
	if c.Target == "" {
		return cli.Usagef("the name of the file is empty: want a file, a folder, or - for standard output")
	}
	var blobs []operand.Remote
	for _, source := range c.Sources.All {
		blobs = append(blobs, source.Remote)
		if source.Context != blobs[0].Context {
			return otherServer(operand.Operand{Remote: &blobs[0]}, operand.Operand{Remote: &source.Remote})
		}
	}
	if err := c.check(len(blobs), c.Recursive); err != nil {
		return err
	}
	t := transfer{console: console, server: &c.ServerFlags, output: c.OutputFlags, reads: &c.ReadFlags, flags: &c.transferFlags, folders: c.Recursive}
	b, err := t.batch(ctx, folder.Options{DryRun: c.DryRun}, operand.Operand{Remote: &blobs[0]}, operand.Operand{})
	if err != nil {
		return err
	}
	b.version = c.versionFlag
	return b.end(ctx, b.readAll(ctx, blobs, c.Target, c.Recursive))
}

// readToOutput writes a blob to standard output.
func (b *batch) readToOutput(ctx context.Context, from operand.Remote) {
	b.stream(ctx, b.item(b.from, from), stdio, "the written bytes are incomplete", func(t *terminal.Transfer) (client.Blob, error) {
		o := b.reads.Options()
		o.Version = b.version.Version
		r, err := b.from.Get(ctx, from.Account, from.Name, o)
		if err != nil {
			return client.Blob{}, err
		}
		_, err = io.Copy(countingWriter{b.console.Out, t}, r)
		return r.Blob(), errors.Join(err, r.Close())
	})
}

// countingWriter counts the written bytes as a transfer's progress.
type countingWriter struct {
	io.Writer
	transfer *terminal.Transfer
}

func (w countingWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.transfer.Add(int64(n))
	return n, err
}

// readAll reads blobs to a file, into a folder or to standard output. Of several, those that cannot
// be read fail by themselves.
func (b *batch) readAll(ctx context.Context, sources []operand.Remote, target string, recursive bool) error {
	several := len(sources) > 1
	first := sources[0]
	switch {
	case target == operand.Stdio && (several || recursive || first.Folder()):
		return cli.Usagef("%s cannot be written to standard output: want a single blob; sluice cat writes several", shownSources(sources))
	case target == operand.Stdio && b.dryRun:
		return cli.Usagef("--dry-run has no meaning for standard output")
	case target == operand.Stdio && b.output.JSON:
		return cli.Usagef("--json and - both write to standard output: use one of them")
	case target == operand.Stdio:
		b.writesContent()
		b.readToOutput(ctx, first)
		return nil
	case first.Folder() && !recursive && !several:
		return notABlob(first)
	}
	isFolder, err := checkTarget(target, several, recursive)
	if err != nil {
		return err
	}
	if isFolder {
		err = b.readIntoFolder(ctx, sources, target, recursive)
	} else if err = b.DownloadFile(b.source(first), target); errors.Is(err, fs.ErrNotExist) {
		return noFolder(filepath.Dir(target))
	}
	if err != nil {
		return err
	}
	return b.run(ctx)
}

// readIntoFolder adds blobs, or the blobs below prefixes, that are read into a folder. Each of
// several keeps its name.
func (b *batch) readIntoFolder(ctx context.Context, sources []operand.Remote, target string, recursive bool) error {
	if !b.dryRun {
		if err := os.MkdirAll(target, 0o777); err != nil {
			return err
		}
	}
	for _, from := range sources {
		if err := b.orRefuse(len(sources) > 1, from, b.addRead(ctx, from, target, recursive, len(sources) > 1)); err != nil {
			return err
		}
	}
	return nil
}

// addRead adds a blob, or the blobs below a prefix, that are read into a folder.
func (b *batch) addRead(ctx context.Context, from operand.Remote, target string, recursive, several bool) error {
	if recursive {
		under := ""
		if several {
			under = cli.KeptName(from) + "/"
		}
		err := b.Download(ctx, b.prefix(b.from, cli.AsFolder(from)), folder.Dir(target), under)
		if errors.Is(err, folder.ErrEmpty) {
			return b.nothingAt(cli.AsFolder(from))
		}
		return b.listError(err)
	}
	if from.Folder() {
		return notABlob(from)
	}
	err := b.DownloadBlob(b.source(from), folder.Dir(target), cli.BaseOf(from.Name))
	_, collides := errors.AsType[*tree.CollisionError](err)
	switch {
	case err == nil || !collides && !cli.AnyOf(err, tree.ErrNotLocal, folder.ErrTemporary):
		return err
	case several:
		return cli.Usagef("%s: %w: read it by itself", terminal.Name(from.String()), err)
	default:
		return cli.Usagef("%s cannot be the name of a file: name the file after the blob", terminal.Name(from.Name))
	}
}

func noFolder(name string) error {
	return cli.ExitWith(cli.ExitNotFound, fmt.Errorf("there is no folder %s", terminal.Name(name)))
}

func notABlob(from operand.Remote) error {
	return cli.Usagef("%s is not a blob: use -r to read all blobs below it", terminal.Name(from.String()))
}

// shownSources returns the operands for people.
func shownSources(sources []operand.Remote) string {
	var names []string
	for _, s := range sources {
		names = append(names, terminal.Name(s.String()))
	}
	return strings.Join(names, ", ")
}

// checkTarget reports whether a local target is a folder, or would be one because it ends like one
// or is for the blobs below a prefix. Otherwise it is a file.
func checkTarget(target string, several, recursive bool) (isFolder bool, err error) {
	info, err := os.Stat(target)
	exists := err == nil
	isFolder = exists && info.IsDir() || recursive || os.IsPathSeparator(target[len(target)-1])
	switch {
	case exists && !info.IsDir() && recursive:
		return false, cli.Usagef("%s is a file: want a folder for the blobs below a prefix", terminal.Name(target))
	case exists && !info.IsDir() && !info.Mode().IsRegular():
		return false, cli.Usagef("%s is not a regular file: want a file, a folder, or - for standard output", terminal.Name(target))
	case !isFolder && several:
		return false, cli.Usagef("%s is not a folder: want one, or a name that ends in /, for several blobs", terminal.Name(target))
	}
	return isFolder, nil
}
