package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"sluice/checksum"
	"sluice/client"
	"sluice/client/folder/tree"
	"sluice/internal/operand"
	"sluice/internal/terminal"
	"sluice/internal/units"
)

// writeFlags describe the blobs that a command stores.
type writeFlags struct {
	Expires            units.When        `short:"e" env:"-" group:"Stored blobs:" placeholder:"WHEN" help:"When they expire: 7d, 'in 7 days', 2030-01-31, 2030-01-31T12:00:00Z or Unix seconds. Default: never."`
	ContentType        string            `env:"-" group:"Stored blobs:" placeholder:"TYPE" help:"Their content type. Default: guessed by name and content."`
	CacheControl       string            `env:"-" group:"Stored blobs:" placeholder:"VALUE" help:"Their Cache-Control, for public reads."`
	ContentDisposition string            `env:"-" group:"Stored blobs:" placeholder:"VALUE" help:"Their Content-Disposition."`
	ContentLanguage    string            `env:"-" group:"Stored blobs:" placeholder:"VALUE" help:"Their Content-Language."`
	Meta               map[string]string `env:"-" group:"Stored blobs:" placeholder:"NAME=VALUE" mapsep:"none" help:"A header Blob-Meta-NAME of them. The flag may be repeated."`
	PartSize           partSize          `env:"-" group:"Stored blobs:" placeholder:"SIZE" help:"Size of the parts in which large files are sent, at most 1GiB. Default: 16MiB, more if there would be too many."`
}

// partSize is the size of a part of an upload in bytes.
type partSize int64

// UnmarshalText parses a size.
func (s *partSize) UnmarshalText(text []byte) error {
	n, err := units.ParseSize(string(text))
	if err != nil || n < 1 || n > 1<<30 {
		return fmt.Errorf("want a size from 1 to 1GiB, such as 16MiB, not %q", text)
	}
	*s = partSize(n)
	return nil
}

// options returns the options of a write now. They have no content type unless the flag is set.
func (f *writeFlags) options() (client.PutOptions, error) {
	expires, err := f.Expires.From(time.Now())
	if err != nil {
		return client.PutOptions{}, usagef("--expires: %w", err)
	}
	return client.PutOptions{
		Expires: expires, ContentType: f.ContentType, CacheControl: f.CacheControl, ContentDisposition: f.ContentDisposition,
		ContentLanguage: f.ContentLanguage, Metadata: f.Meta, PartSize: int64(f.PartSize),
	}, nil
}

// set reports whether a flag describes the blobs.
func (f *writeFlags) set() bool {
	return f.Expires != units.When{} || f.ContentType+f.CacheControl+f.ContentDisposition+f.ContentLanguage != "" || f.Meta != nil || f.PartSize != 0
}

// errStoresNothing is returned if flags describe stored blobs, and the target is local.
var errStoresNothing = usagef("the target is local: --expires and the other flags for stored blobs have no meaning")

// detectedBytes is how many bytes of a content http.DetectContentType considers.
const detectedBytes = 512

// contentType returns the type of a content by its name, or else by its first bytes.
func contentType(name string, first []byte) string {
	return cmp.Or(mime.TypeByExtension(path.Ext(name)), http.DetectContentType(first))
}

// uploader stores local files.
type uploader struct {
	to      *client.Client
	options client.PutOptions
	stored  map[string]client.Blob // blobs that are not stored again if they are the same, by name; nil: none

	dryRun      bool // nothing is stored
	contentOnly bool // blobs with the same content are the same, whatever their properties
}

// file returns the job that stores a file. shown is its name for people.
func (u *uploader) file(name, shown string, size int64, to operand.Remote) job {
	return job{source: shown, target: to.String(), size: size, ifInterrupted: resumable, run: func(ctx context.Context, t *terminal.Transfer) (done, error) {
		o := u.options
		o.Progress = func(n, _ int64) { t.Set(n) }
		same, err := u.prepare(ctx, name, to, &o)
		if err != nil {
			return done{}, err
		}
		if same != nil {
			t.Skip(same.Size)
			return done{same.Size, same.ETag, true}, u.forget(ctx, name, to, o)
		}
		if u.dryRun {
			return done{size: size}, nil
		}
		b, err := u.to.PutFile(ctx, to.Account, to.Name, name, o)
		return done{size: b.Size, etag: b.ETag}, err
	}}
}

// forget removes what an interrupted upload of a file has left that needs no upload any more, as when
// the response to the last request was lost.
func (u *uploader) forget(ctx context.Context, name string, to operand.Remote, o client.PutOptions) error {
	if u.dryRun {
		return nil
	}
	err := u.to.ForgetUpload(ctx, to.Account, to.Name, name, o)
	if errors.Is(err, client.ErrBusy) { // it belongs to another process
		return nil
	}
	return err
}

// prepare sets the content type of a file. It returns the stored blob if that has the same content and
// the same properties.
func (u *uploader) prepare(ctx context.Context, name string, to operand.Remote, o *client.PutOptions) (*client.Blob, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // a pipe: what is read of it cannot be read again
		o.ContentType = cmp.Or(o.ContentType, contentType(to.Name, nil))
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if o.ContentType == "" {
		first := make([]byte, detectedBytes)
		n, err := f.ReadAt(first, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		o.ContentType = contentType(to.Name, first[:n])
	}
	stored, exists := u.stored[to.Name]
	if !exists || !u.contentOnly && !sameProperties(o, &stored) {
		return nil, nil
	}
	same, err := sameContent(ctx, f, &stored)
	if err != nil || !same {
		return nil, err
	}
	return &stored, nil
}

// sameProperties reports whether a blob that is listed with its metadata has the properties of o.
func sameProperties(o *client.PutOptions, b *client.Blob) bool {
	meta := map[string]string{}
	for name, value := range o.Metadata {
		meta[strings.ToLower(name)] = value
	}
	return o.ContentType == b.ContentType && o.CacheControl == b.CacheControl && o.ContentDisposition == b.ContentDisposition &&
		o.ContentLanguage == b.ContentLanguage && maps.Equal(meta, b.Metadata) && o.Expires.Truncate(time.Millisecond).Equal(b.Expires.Truncate(time.Millisecond))
}

// sameContent reports whether a file has the size and the ETag of a blob.
func sameContent(ctx context.Context, f *os.File, b *client.Blob) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	_, _, known := checksum.ParseETag(b.ETag)
	if info.Size() != b.Size || !known {
		return false, nil
	}
	var crc uint64
	size := int64(0)
	buffer := make([]byte, 256<<10)
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, err := f.ReadAt(buffer, size)
		crc, size = checksum.Update(crc, buffer[:n]), size+int64(n)
		if errors.Is(err, io.EOF) {
			return checksum.ETag(size, crc) == b.ETag, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// list lists the blobs below a prefix, up to the next delimiter if there is one, so that those that are the
// same are not stored again. A key that only permits writes cannot list them: then every file is stored.
func (u *uploader) list(ctx context.Context, to operand.Remote, delimiter string) error {
	if u.stored == nil {
		u.stored = map[string]client.Blob{}
	}
	for e, err := range u.to.List(ctx, to.Account, client.ListOptions{Prefix: to.Name, Delimiter: delimiter, Metadata: true}) {
		if errors.Is(err, client.ErrForbidden) {
			return nil
		}
		if err != nil {
			return blobError(to, err)
		}
		u.stored[e.Name] = e.Blob
	}
	return nil
}

// folder returns the jobs that store the files of a folder below a prefix.
func (u *uploader) folder(ctx context.Context, b *batch, dir string, to operand.Remote) (jobs []job, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	files, skipped, err := tree.List(root, client.IsTemporary)
	if err != nil {
		return nil, err
	}
	if err := u.list(ctx, to, ""); err != nil {
		return nil, err
	}
	return u.jobs(b, dir, files, skipped, to), nil
}

// jobs returns the jobs that store files of a folder below a prefix, and reports what is skipped.
func (u *uploader) jobs(b *batch, dir string, files []tree.File, skipped []tree.Skipped, to operand.Remote) (jobs []job) {
	u.dryRun = b.dryRun
	for _, s := range skipped {
		b.skip(localPath(dir, s.Name), s.Err.Error())
	}
	for _, f := range files {
		local := localPath(dir, f.Name)
		jobs = append(jobs, u.file(local, local, f.Size, below(to, f.Name)))
	}
	return jobs
}

// localPath returns the path of a file with a name relative to a folder.
func localPath(dir, name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }

// stream returns the job that stores what r returns until its end.
func (u *uploader) stream(r io.Reader, to operand.Remote) job {
	return job{source: operand.Stdio, target: to.String(), size: -1, ifInterrupted: "nothing was stored, as standard input cannot be read again", run: func(ctx context.Context, t *terminal.Transfer) (done, error) {
		o := u.options
		o.Progress = func(n, _ int64) { t.Set(n) }
		in := bufio.NewReaderSize(interruptible(ctx, r), 64<<10)
		first, err := in.Peek(detectedBytes)
		if err != nil && !errors.Is(err, io.EOF) {
			return done{}, err
		}
		o.ContentType = cmp.Or(o.ContentType, contentType(to.Name, first))
		b, err := u.to.Put(ctx, to.Account, to.Name, in, o)
		return done{size: b.Size, etag: b.ETag}, err
	}}
}

// interruptible returns a reader of r whose reads end with the context: those of a terminal or a pipe
// do not.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	pr, pw := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = pw.CloseWithError(context.Cause(ctx)) }) // it returns nil
	go func() {
		buffer := make([]byte, 256<<10)
		_, err := io.CopyBuffer(struct{ io.Writer }{pw}, struct{ io.Reader }{r}, buffer)
		stop()
		_ = pw.CloseWithError(err) // it returns nil
	}()
	return pr
}

// add runs the jobs that store local operands: files, folders if recursive is set, or standard input. Of
// several, those that cannot be stored fail by themselves.
func (u *uploader) add(ctx context.Context, b *batch, sources []string, to operand.Remote, recursive bool) error {
	several := len(sources) > 1
	if several {
		if err := checkPrefix(to); err != nil {
			return err
		}
		if err := checkBases(sources, to); err != nil {
			return err
		}
		if recursive {
			if err := u.list(ctx, asFolder(to), "/"); err != nil {
				return err
			}
		}
	}
	var jobs []job
	for _, source := range sources {
		info, err := statSource(source, to, recursive)
		switch {
		case err != nil && several:
			jobs = append(jobs, failure(source, err))
		case err != nil:
			return err
		case source == operand.Stdio:
			jobs = append(jobs, u.stream(b.console.in, to))
		case info.IsDir():
			below := asFolder(to)
			if several {
				below.Name += filepath.Base(source) + "/"
			}
			files, err := u.folder(ctx, b, source, below)
			if err != nil {
				return err
			}
			jobs = append(jobs, files...)
		default:
			jobs = append(jobs, u.single(source, info, to))
		}
	}
	b.run(ctx, jobs)
	return nil
}

// checkBases returns an error unless each of several files and folders has a name of its own.
func checkBases(sources []string, to operand.Remote) error {
	seen := map[string]string{}
	for _, source := range sources {
		base := filepath.Base(source)
		switch other, exists := seen[base]; {
		case source == operand.Stdio:
			return noName(to)
		case base == "." || base == ".." || os.IsPathSeparator(base[len(base)-1]):
			return usagef("%s has no name to keep among several: store it by itself", terminal.Name(source))
		case exists:
			return bothWouldBe(other, source, below(asFolder(to), base))
		}
		seen[base] = source
	}
	return nil
}

// statSource returns the properties of a local operand, or nil for standard input. It returns an error if
// it cannot be stored.
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
		return nil, usagef("there is no file %s", terminal.Name(source))
	case err != nil:
		return nil, err
	case info.IsDir() && !recursive:
		return nil, usagef("%s is a folder: use -r to store the files in it", terminal.Name(source))
	}
	return info, nil
}

func noName(to operand.Remote) error {
	return usagef("standard input has no name: want ACCOUNT/NAME and not %s", terminal.Name(to.String()))
}

// single returns the job that stores a file that is an operand.
func (u *uploader) single(source string, info fs.FileInfo, to operand.Remote) job {
	if to.Folder() {
		to = below(asFolder(to), filepath.Base(source))
	}
	size := info.Size()
	if !info.Mode().IsRegular() {
		size = -1
	}
	return u.file(source, source, size, to)
}
