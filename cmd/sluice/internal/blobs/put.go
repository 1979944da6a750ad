package blobs

import (
	"bufio"
	"cmp"
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
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
)

// Put stores files.
type Put struct {
	Sources cli.Sources[string] `arg:"" name:"file..." help:"File, folder with -r, or - for standard input. Several are possible."`
	Target  cli.RemoteOperand   `arg:"" name:"blob" help:"ACCOUNT/NAME, or ACCOUNT/PREFIX/ to keep the names of the files."`

	Recursive bool `short:"r" env:"-" help:"Store the files of a folder and of the folders in it, named by their paths below it. Of several, each keeps its own name, too."`
	DryRun    bool `short:"n" env:"-" help:"Print the changes that would be made, and make none."`

	cli.ServerFlags
	cli.OutputFlags
	writeFlags
	lockFlags
	transferFlags
}

// Run stores the files.
func (c *Put) Run(ctx context.Context, console *cli.Console) error {
	t := transfer{console: console, server: &c.ServerFlags, output: c.OutputFlags, writes: &c.writeFlags, locks: &c.lockFlags, flags: &c.transferFlags, folders: c.Recursive}
	b, err := t.batch(ctx, folder.Options{DryRun: c.DryRun}, operand.Operand{}, operand.Operand{Remote: &c.Target.Remote})
	if err != nil {
		return err
	}
	return b.end(ctx, b.storeAll(ctx, c.Sources.All, c.Target.Remote, c.Recursive))
}

// storeInput stores the bytes of standard input.
func (b *batch) storeInput(ctx context.Context, to operand.Remote) {
	b.stream(ctx, stdio, b.item(b.to, to), "nothing was stored, as standard input cannot be read again", func(t *terminal.Transfer) (client.Blob, error) {
		o := b.put
		o.Progress = func(n, _ int64) { t.Set(n) }
		in := bufio.NewReaderSize(cli.Interruptible(ctx, b.console.In), 64<<10)
		first, err := in.Peek(client.SniffedBytes)
		if err != nil && !errors.Is(err, io.EOF) {
			return client.Blob{}, err
		}
		o.ContentType = cmp.Or(o.ContentType, client.ContentType(to.Name, first))
		return b.to.Put(ctx, to.Account, to.Name, in, o)
	})
}

// storeAll stores files, folders if recursive is set, or standard input. Of several, those that
// cannot be stored fail by themselves.
func (b *batch) storeAll(ctx context.Context, sources []string, to operand.Remote, recursive bool) error {
	var stored map[string]client.Blob
	several := len(sources) > 1
	if several {
		if err := checkBases(sources, to); err != nil {
			return err
		}
		if recursive {
			var err error
			if stored, err = b.storedBelow(ctx, cli.AsFolder(to)); err != nil {
				return err
			}
		}
	}
	for _, source := range sources {
		info, err := statSource(source, to, recursive)
		switch {
		case err != nil && several:
			b.refuse(source, err)
		case err != nil:
			return err
		case source == operand.Stdio && b.dryRun:
			return cli.Usagef("--dry-run has no meaning for standard input, which would be read")
		case source == operand.Stdio:
			b.storeInput(ctx, to)
			return nil
		case info.IsDir():
			below := cli.AsFolder(to)
			if several {
				below.Name += filepath.Base(source) + "/"
			}
			switch err := b.Upload(ctx, folder.Dir(source), b.prefix(b.to, below)); {
			case errors.Is(err, folder.ErrEmpty):
				b.nothingIn(source)
			case err != nil:
				return b.listError(err)
			}
		default:
			b.storeFile(source, to, stored)
		}
	}
	return b.run(ctx)
}

// storedBelow returns the blobs below a prefix by their names, without those below a further slash.
// A key that only permits writes cannot list them: then there are none.
func (b *batch) storedBelow(ctx context.Context, to operand.Remote) (map[string]client.Blob, error) {
	stored := map[string]client.Blob{}
	for e, err := range b.to.List(ctx, to.Account, client.ListOptions{Prefix: to.Name, Delimiter: "/", Metadata: true}) {
		if errors.Is(err, client.ErrForbidden) {
			break
		}
		if err != nil {
			return nil, blobError(to, err)
		}
		stored[e.Name] = e.Blob
	}
	return stored, nil
}

// storeFile adds a file that is an operand.
func (b *batch) storeFile(source string, to operand.Remote, stored map[string]client.Blob) {
	if to.Folder() {
		to = cli.Below(cli.AsFolder(to), filepath.Base(source))
	}
	var known *client.Blob
	if blob, exists := stored[to.Name]; exists {
		known = &blob
	}
	b.UploadFile(source, b.item(b.to, to), known)
}

// checkBases returns an error unless each of several files and folders has a name of its own below
// a target.
func checkBases(sources []string, to operand.Remote) error {
	var names []string
	for _, source := range sources {
		base := filepath.Base(source)
		switch {
		case source == operand.Stdio:
			return noName(to)
		case base == "." || base == ".." || os.IsPathSeparator(base[len(base)-1]):
			return cli.Usagef("%s has no name to keep among several: store it by itself", terminal.Name(source))
		}
		names = append(names, base)
	}
	return checkDistinct(sources, names, to)
}

// checkDistinct returns an error unless a target can have several blobs below it, and each source
// keeps a name of its own there.
func checkDistinct(sources, names []string, to operand.Remote) error {
	if !to.Folder() {
		return cli.Usagef("%s is a single blob: want ACCOUNT/PREFIX/, with the last slash, as the target of several sources", terminal.Name(to.String()))
	}
	seen := map[string]string{}
	for i, name := range names {
		if other, exists := seen[name]; exists {
			return cli.Usagef("%s and %s would both be %s: copy one of them by itself", terminal.Name(other), terminal.Name(sources[i]), terminal.Name(cli.Below(cli.AsFolder(to), name).String()))
		}
		seen[name] = sources[i]
	}
	return nil
}

// statSource describes a local operand, or returns nil for standard input. It returns an error if
// the operand cannot be stored.
func statSource(source string, to operand.Remote, recursive bool) (fs.FileInfo, error) {
	if source == operand.Stdio {
		if to.Folder() {
			return nil, noName(to)
		}
		return nil, nil
	}
	info, err := os.Stat(source)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.ExitWith(cli.ExitNotFound, fmt.Errorf("there is no file %s%s", terminal.Name(source), ifRemote(source)))
	case err != nil:
		return nil, err
	case info.IsDir() && !recursive:
		return nil, cli.Usagef("%s is a folder: use -r to store the files in it", terminal.Name(source))
	}
	return info, nil
}

// ifRemote returns advice, or "", for a local path that may have been meant to be remote.
func ifRemote(path string) string {
	if _, ok := cli.MayBeRemote(path); ok && strings.Contains(path, "/") {
		return "; cp and sync take :" + terminal.Name(path) + " for the server's"
	}
	return ""
}

func noName(to operand.Remote) error {
	return cli.Usagef("standard input has no name: want ACCOUNT/NAME and not %s", terminal.Name(to.String()))
}
