package main

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
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
)

// downloader reads blobs into files.
type downloader struct {
	from  *client.Client
	reads *paidReads
}

// stream writes a blob to w.
func (d *downloader) stream(ctx context.Context, b *batch, from operand.Remote, w io.Writer) {
	b.stream(ctx, b.item(d.from, from), stdio, "the written bytes are incomplete", func(t *terminal.Transfer) (client.Blob, error) {
		r, err := d.from.Get(ctx, from.Account, from.Name, d.reads.options())
		if err != nil {
			return client.Blob{}, err
		}
		_, err = io.Copy(countingWriter{w, t}, r)
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

// run reads blobs to a file, into a folder or to standard output. Of several, those that cannot be
// read fail by themselves.
func (d *downloader) run(ctx context.Context, b *batch, sources []operand.Remote, target string, recursive bool) error {
	several := len(sources) > 1
	first := sources[0]
	switch {
	case target == operand.Stdio && (several || recursive || first.Folder()):
		return usagef("%s cannot be written to standard output: want a single blob; sluice cat writes several", shownSources(sources))
	case target == operand.Stdio && b.dryRun:
		return usagef("--dry-run has no meaning for standard output")
	case target == operand.Stdio && b.output.JSON:
		return usagef("--json and - both write to standard output: use one of them")
	case target == operand.Stdio:
		b.writesContent()
		d.stream(ctx, b, first, b.console.out)
		return nil
	case first.Folder() && !recursive && !several:
		return notABlob(first)
	}
	isFolder, err := checkTarget(target, several, recursive)
	if err != nil {
		return err
	}
	if isFolder {
		err = d.toFolder(ctx, b, sources, target, recursive)
	} else if err = b.DownloadFile(b.item(d.from, first), target); errors.Is(err, fs.ErrNotExist) {
		return noFolder(filepath.Dir(target))
	}
	if err != nil {
		return err
	}
	return b.run(ctx)
}

// toFolder adds blobs, or the blobs below prefixes, that are read into a folder. Each of several
// keeps its name.
func (d *downloader) toFolder(ctx context.Context, b *batch, sources []operand.Remote, target string, recursive bool) error {
	if !b.dryRun {
		if err := os.MkdirAll(target, 0o777); err != nil {
			return err
		}
	}
	for _, from := range sources {
		err := d.add(ctx, b, from, target, recursive, len(sources) > 1)
		if e, known := errors.AsType[*exitError](err); known && len(sources) > 1 {
			b.refuse(from.String(), exitWith(e.code, err))
		} else if err != nil {
			return err
		}
	}
	return nil
}

// add adds a blob, or the blobs below a prefix, that are read into a folder.
func (d *downloader) add(ctx context.Context, b *batch, from operand.Remote, target string, recursive, several bool) error {
	if recursive {
		under := ""
		if several {
			under = keptName(from) + "/"
		}
		err := b.Download(ctx, b.prefix(d.from, asFolder(from)), folder.Dir(target), under)
		if errors.Is(err, folder.ErrEmpty) {
			return b.nothingAt(asFolder(from))
		}
		return b.listError(err)
	}
	if from.Folder() {
		return notABlob(from)
	}
	err := b.DownloadBlob(b.item(d.from, from), folder.Dir(target), baseOf(from.Name))
	_, collides := errors.AsType[*tree.CollisionError](err)
	switch {
	case err == nil || !collides && !anyOf(err, tree.ErrNotLocal, folder.ErrTemporary):
		return err
	case several:
		return usagef("%s: %w: read it by itself", terminal.Name(from.String()), err)
	default:
		return usagef("%s cannot be the name of a file: name the file after the blob", terminal.Name(from.Name))
	}
}

func noFolder(name string) error {
	return exitWith(exitNotFound, fmt.Errorf("there is no folder %s", terminal.Name(name)))
}

func notABlob(from operand.Remote) error {
	return usagef("%s is not a blob: use -r to read all blobs below it", terminal.Name(from.String()))
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
		return false, usagef("%s is a file: want a folder for the blobs below a prefix", terminal.Name(target))
	case exists && !info.IsDir() && !info.Mode().IsRegular():
		return false, usagef("%s is not a regular file: want a file, a folder, or - for standard output", terminal.Name(target))
	case !isFolder && several:
		return false, usagef("%s is not a folder: want one, or a name that ends in /, for several blobs", terminal.Name(target))
	}
	return isFolder, nil
}
