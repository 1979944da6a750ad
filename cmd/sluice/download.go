package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice/client"
	"sluice/client/folder/tree"
	"sluice/internal/operand"
	"sluice/internal/terminal"
)

// downloader reads blobs into files. A file is written through the os.Root of its folder, and
// symbolic links are not followed.
type downloader struct {
	from   *client.Client
	reads  *paidReads
	dryRun bool // nothing is written
}

// file returns the job that reads a blob into the file at path in root. known is the blob if it was
// listed: the file is not read again if it has its content.
func (d *downloader) file(from operand.Remote, root *os.Root, path string, known *client.Blob) job {
	size := int64(-1)
	if known != nil {
		size = known.Size
	}
	return job{source: from.String(), target: filepath.Join(root.Name(), path), size: size, ifInterrupted: resumable, run: func(ctx context.Context, t *terminal.Transfer) (done, error) {
		if known != nil {
			same, err := hasContent(ctx, root, path, known)
			if err != nil {
				return done{}, err
			}
			if same {
				t.Skip(known.Size)
				return done{known.Size, known.ETag, true}, d.forget(from, root, path)
			}
		}
		if d.dryRun {
			return done{size: size}, nil
		}
		if err := tree.MakeFolders(root, path); err != nil {
			return done{}, err
		}
		b, err := d.from.DownloadFile(ctx, from.Account, from.Name, path, client.DownloadOptions{GetOptions: d.reads.options(), Root: root, Progress: func(n, _ int64) { t.Set(n) }})
		return done{size: b.Size, etag: b.ETag}, d.reads.explain(err)
	}}
}

// forget removes what an interrupted download has left of a file that needs no download any more.
func (d *downloader) forget(from operand.Remote, root *os.Root, path string) error {
	if d.dryRun {
		return nil
	}
	err := d.from.ForgetDownload(from.Account, from.Name, path, client.DownloadOptions{Root: root})
	if errors.Is(err, client.ErrBusy) { // it belongs to another process
		return nil
	}
	return err
}

// hasContent reports whether a file has the content of a blob.
func hasContent(ctx context.Context, root *os.Root, path string, b *client.Blob) (bool, error) {
	f, err := tree.Open(root, path)
	if err != nil { // there is none, or it cannot be read: it is replaced, if that is possible
		return false, nil //nolint:nilerr // see above
	}
	same, err := sameContent(ctx, f, b)
	return same, errors.Join(err, f.Close())
}

// stream returns the job that writes a blob to w.
func (d *downloader) stream(from operand.Remote, w io.Writer) job {
	return job{source: from.String(), target: operand.Stdio, size: -1, ifInterrupted: "what was written is incomplete", run: func(ctx context.Context, t *terminal.Transfer) (done, error) {
		r, err := d.from.Get(ctx, from.Account, from.Name, d.reads.options())
		if err != nil {
			return done{}, d.reads.explain(err)
		}
		_, err = io.Copy(countingWriter{w, t}, r)
		return done{size: r.Size(), etag: r.Blob().ETag}, errors.Join(d.reads.explain(err), r.Close())
	}}
}

// countingWriter counts what is written as the progress of a transfer.
type countingWriter struct {
	io.Writer
	transfer *terminal.Transfer
}

func (w countingWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.transfer.Add(int64(n))
	return n, err
}

// jobs returns the jobs that read the blobs below a prefix into the folder under of root, and adds the names
// of their files. It reports what is skipped.
func (d *downloader) jobs(ctx context.Context, b *batch, from operand.Remote, root *os.Root, under string, names *tree.Names) (jobs []job, err error) {
	d.dryRun = b.dryRun
	for e, err := range d.from.List(ctx, from.Account, client.ListOptions{Prefix: from.Name}) {
		if err != nil {
			return nil, blobError(from, err)
		}
		name := strings.TrimPrefix(e.Name, from.Name)
		path, err := fileOf(names, under+name)
		if err != nil {
			b.skip(below(from, name).String(), err.Error())
			continue
		}
		jobs = append(jobs, d.file(below(from, name), root, path, &e.Blob))
	}
	return jobs, nil
}

// fileOf returns the path of the file for a name, or an error if there can be none.
func fileOf(names *tree.Names, name string) (string, error) {
	if slices.ContainsFunc(strings.Split(name, "/"), client.IsTemporary) {
		return "", errors.New("the name is that of a temporary file of a transfer")
	}
	return names.Add(name)
}

// add runs the jobs that read remote operands to a local one: a file, a folder or standard output. Of
// several, those that cannot be read fail by themselves.
func (d *downloader) add(ctx context.Context, b *batch, sources []operand.Remote, target string, recursive bool) (err error) {
	several := len(sources) > 1
	first := sources[0]
	switch {
	case target == operand.Stdio && (several || recursive || first.Folder()):
		return usagef("%s cannot be written to standard output: want a single blob; sluice cat writes several", shownSources(sources))
	case target == operand.Stdio && b.output.JSON:
		return usagef("--json and - both write to standard output: use one of them")
	case target == operand.Stdio:
		b.writesContent()
		b.run(ctx, []job{d.stream(first, b.console.out)})
		return nil
	case first.Folder() && !recursive && !several:
		return notABlob(first)
	}
	dir, path, err := targetOf(target, sources, recursive)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return usagef("there is no folder %s", terminal.Name(dir))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if !recursive && !several {
		b.run(ctx, []job{d.file(first, root, path, nil)})
		return nil
	}
	jobs, err := d.several(ctx, b, sources, root, recursive)
	if err != nil {
		return err
	}
	b.run(ctx, jobs)
	return nil
}

// several returns the jobs that read blobs, or the blobs below prefixes, into a folder. Each of several
// keeps its name.
func (d *downloader) several(ctx context.Context, b *batch, sources []operand.Remote, root *os.Root, recursive bool) (jobs []job, err error) {
	var names tree.Names
	for _, from := range sources {
		if !recursive {
			jobs = append(jobs, d.named(from, root, &names))
			continue
		}
		under := ""
		if len(sources) > 1 {
			under = keptName(from) + "/"
		}
		skipped := b.skipped
		more, err := d.jobs(ctx, b, asFolder(from), root, under, &names)
		switch nothing := len(more) == 0 && b.skipped == skipped; {
		case err != nil:
			return nil, err
		case nothing && under == "":
			return nil, nothingBelow(asFolder(from))
		case nothing:
			more = []job{failure(from.String(), nothingBelow(asFolder(from)))}
		}
		jobs = append(jobs, more...)
	}
	return jobs, nil
}

// named returns the job that reads one of several blobs into a file of its name.
func (d *downloader) named(from operand.Remote, root *os.Root, names *tree.Names) job {
	if from.Folder() {
		return failure(from.String(), notABlob(from))
	}
	path, err := fileOf(names, baseOf(from.Name))
	if err != nil {
		return failure(from.String(), usagef("%s: %w: read it by itself", terminal.Name(from.String()), err))
	}
	return d.file(from, root, path, nil)
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

// targetOf returns the folder of a local target and, for a single blob, the file in it. A target that is a
// folder, or ends like one, keeps the name of the blob after its last slash. A folder that does not exist is
// created, if the target is one.
func targetOf(target string, sources []operand.Remote, recursive bool) (dir, path string, err error) {
	info, statErr := os.Stat(target)
	isFolder := statErr == nil && info.IsDir()
	single := len(sources) == 1 && !recursive
	if statErr == nil && !isFolder && !info.Mode().IsRegular() {
		return "", "", usagef("%s is not a regular file: want a file, a folder, or - for standard output", terminal.Name(target))
	}
	if !isFolder && !recursive && !os.IsPathSeparator(target[len(target)-1]) {
		if !single {
			return "", "", usagef("%s is not a folder: want one, or a name that ends in /, for several blobs", terminal.Name(target))
		}
		return filepath.Dir(target), filepath.Base(target), nil
	}
	if !isFolder {
		if err := os.MkdirAll(target, 0o777); err != nil {
			return "", "", err
		}
	}
	if single {
		name := sources[0].Name
		var names tree.Names
		if path, err = fileOf(&names, baseOf(name)); err != nil {
			return "", "", usagef("%s cannot be the name of a file: name the file after the blob", terminal.Name(name))
		}
	}
	return target, path, nil
}
