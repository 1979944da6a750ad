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
	"sluice/internal/folder"
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
		if err := folder.MakeFolders(root, path); err != nil {
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
	f, err := folder.Open(root, path)
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

// folder reads the blobs below a prefix into a folder.
func (d *downloader) folder(ctx context.Context, b *batch, from operand.Remote, root *os.Root) error {
	jobs, _, err := d.jobs(ctx, b, from, root)
	if err != nil {
		return err
	}
	if len(jobs) == 0 && b.skipped == 0 {
		return nothingBelow(from)
	}
	b.run(ctx, jobs)
	return nil
}

// jobs returns the jobs that read the blobs below a prefix into a folder, and the names of their files.
// It reports what is skipped.
func (d *downloader) jobs(ctx context.Context, b *batch, from operand.Remote, root *os.Root) (jobs []job, names *folder.Names, err error) {
	d.dryRun = b.dryRun
	names = &folder.Names{}
	for e, err := range d.from.List(ctx, from.Account, client.ListOptions{Prefix: from.Name}) {
		if err != nil {
			return nil, nil, blobError(from, err)
		}
		name := strings.TrimPrefix(e.Name, from.Name)
		path, err := fileOf(names, name)
		if err != nil {
			b.skip(below(from, name).String(), err.Error())
			continue
		}
		jobs = append(jobs, d.file(below(from, name), root, path, &e.Blob))
	}
	return jobs, names, nil
}

// fileOf returns the path of the file for a name, or an error if there can be none.
func fileOf(names *folder.Names, name string) (string, error) {
	if slices.ContainsFunc(strings.Split(name, "/"), client.IsTemporary) {
		return "", errors.New("the name is that of a temporary file of a transfer")
	}
	return names.Add(name)
}

// add runs the job or the jobs that read a remote operand to a local one: a file, a folder or
// standard output.
func (d *downloader) add(ctx context.Context, b *batch, from operand.Remote, target string, recursive bool) (err error) {
	shown := terminal.Name(from.String())
	if target == operand.Stdio {
		if recursive || from.Folder() {
			return usagef("%s cannot be written to standard output: want a single blob", shown)
		}
		if b.output.JSON {
			return usagef("--json and - both write to standard output: use one of them")
		}
		b.run(ctx, []job{d.stream(from, b.console.out)})
		return nil
	}
	if from.Folder() && !recursive {
		return usagef("%s is not a blob: use -r to read all blobs below it", shown)
	}
	dir, path, err := targetOf(target, from.Name, recursive)
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
	if recursive {
		return d.folder(ctx, b, asFolder(from), root)
	}
	b.run(ctx, []job{d.file(from, root, path, nil)})
	return nil
}

// targetOf returns the folder of a local target and, unless recursive is set, the file in it. A target
// that is a folder, or ends like one, keeps the name of the blob after its last slash. A folder that
// does not exist is created, if the target is one.
func targetOf(target, name string, recursive bool) (dir, path string, err error) {
	info, statErr := os.Stat(target)
	isFolder := statErr == nil && info.IsDir()
	if recursive || isFolder || os.IsPathSeparator(target[len(target)-1]) {
		if !isFolder {
			if err := os.MkdirAll(target, 0o777); err != nil {
				return "", "", err
			}
		}
		if recursive {
			return target, "", nil
		}
		var names folder.Names
		if path, err = fileOf(&names, baseOf(name)); err != nil {
			return "", "", usagef("%s cannot be the name of a file: name the file after the blob", terminal.Name(name))
		}
		return target, path, nil
	}
	return filepath.Dir(target), filepath.Base(target), nil
}
