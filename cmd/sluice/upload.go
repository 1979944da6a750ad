package main

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
	"time"

	"sluice/client"
	"sluice/client/folder"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
)

// writeFlags describe the blobs that a command stores.
type writeFlags struct {
	Expires            units.When `short:"e" env:"-" group:"Stored blobs:" placeholder:"WHEN" help:"When they expire: 7d, 'in 7 days', 2030-01-31, 2030-01-31T12:00:00Z or Unix seconds. Default: never."`
	ContentType        string     `env:"-" group:"Stored blobs:" placeholder:"TYPE" help:"Their content type. Default: guessed by name and content."`
	CacheControl       string     `env:"-" group:"Stored blobs:" placeholder:"VALUE" help:"Their Cache-Control, for public reads."`
	ContentDisposition string     `env:"-" group:"Stored blobs:" placeholder:"VALUE" help:"Their Content-Disposition."`
	ContentLanguage    string     `env:"-" group:"Stored blobs:" placeholder:"VALUE" help:"Their Content-Language."`
	Meta               metadata   `env:"-" group:"Stored blobs:" placeholder:"NAME=VALUE" help:"A header Blob-Meta-NAME of them. The flag may be repeated."`
	CreateOnly         bool       `env:"-" group:"Stored blobs:" help:"Store only blobs that do not exist: one that does is left as it is, and is an error unless it has the same content."`
	PartSize           partSize   `env:"-" group:"Stored blobs:" placeholder:"SIZE" help:"Size of the parts in which large files are sent, at most 5GiB. Default: 16MiB, more if there would be too many."`
}

// metadata are custom headers by their names.
type metadata map[string]string

// UnmarshalText adds a header, which must not be there in another case of letters, either.
func (m *metadata) UnmarshalText(text []byte) error {
	name, value, found := strings.Cut(string(text), "=")
	if !found {
		return fmt.Errorf("want NAME=VALUE, not %q", text)
	}
	for other := range *m {
		if strings.EqualFold(name, other) {
			return fmt.Errorf("%s is set twice", name)
		}
	}
	if *m == nil {
		*m = metadata{}
	}
	(*m)[name] = value
	return nil
}

// partSize is an upload's part size in bytes.
type partSize int64

// UnmarshalText parses a size.
func (s *partSize) UnmarshalText(text []byte) error {
	n, err := units.ParseSize(string(text))
	if err != nil || n < 1 || n > 5<<30 {
		return fmt.Errorf("want a size from 1 to 5GiB, such as 16MiB, not %q", text)
	}
	*s = partSize(n)
	return nil
}

// options returns the options for writing now. They have no content type unless the flag is set.
func (f *writeFlags) options() (client.PutOptions, error) {
	expires, err := f.Expires.From(time.Now())
	if err != nil {
		return client.PutOptions{}, usagef("--expires: %w", err)
	}
	return client.PutOptions{
		Expires: expires, ContentType: f.ContentType, CacheControl: f.CacheControl, ContentDisposition: f.ContentDisposition,
		ContentLanguage: f.ContentLanguage, Metadata: f.Meta, PartSize: int64(f.PartSize), IfAbsent: f.CreateOnly,
	}, nil
}

// set reports whether a flag describes the blobs.
func (f *writeFlags) set() bool {
	return f.Expires != units.When{} || f.ContentType+f.CacheControl+f.ContentDisposition+f.ContentLanguage != "" || f.Meta != nil || f.PartSize != 0 || f.CreateOnly
}

// errStoresNothing is returned if flags describe stored blobs, and the target is local.
var errStoresNothing = usagef("the target is local: --expires and the other flags for stored blobs have no meaning")

// uploader stores local operands.
type uploader struct {
	to      *client.Client
	options client.PutOptions
}

// stream stores the bytes of r until its end.
func (u *uploader) stream(ctx context.Context, b *batch, r io.Reader, to operand.Remote) {
	b.stream(ctx, stdio, b.item(u.to, to), "nothing was stored, as standard input cannot be read again", func(t *terminal.Transfer) (client.Blob, error) {
		o := u.options
		o.Progress = func(n, _ int64) { t.Set(n) }
		in := bufio.NewReaderSize(interruptible(ctx, r), 64<<10)
		first, err := in.Peek(client.SniffedBytes)
		if err != nil && !errors.Is(err, io.EOF) {
			return client.Blob{}, err
		}
		o.ContentType = cmp.Or(o.ContentType, client.ContentType(to.Name, first))
		return u.to.Put(ctx, to.Account, to.Name, in, o)
	})
}

// interruptible returns a reader for r that ends with the context: a read from a terminal or a pipe
// does not.
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

// run stores files, folders if recursive is set, or standard input. Of several, those that cannot
// be stored fail by themselves.
func (u *uploader) run(ctx context.Context, b *batch, sources []string, to operand.Remote, recursive bool) error {
	var stored map[string]client.Blob
	several := len(sources) > 1
	if several {
		if err := checkPrefix(to); err != nil {
			return err
		}
		if err := checkBases(sources, to); err != nil {
			return err
		}
		if recursive {
			var err error
			if stored, err = u.list(ctx, asFolder(to)); err != nil {
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
			return usagef("--dry-run has no meaning for standard input, which would be read")
		case source == operand.Stdio:
			u.stream(ctx, b, b.console.in, to)
			return nil
		case info.IsDir():
			below := asFolder(to)
			if several {
				below.Name += filepath.Base(source) + "/"
			}
			switch err := b.Upload(ctx, folder.Dir(source), b.prefix(u.to, below)); {
			case errors.Is(err, folder.ErrEmpty):
				b.nothingIn(source)
			case err != nil:
				return b.listError(err)
			}
		default:
			u.single(b, source, to, stored)
		}
	}
	return b.run(ctx)
}

// list returns the blobs below a prefix by their names, without those below a further slash. A key
// that only permits writes cannot list them: then there are none.
func (u *uploader) list(ctx context.Context, to operand.Remote) (map[string]client.Blob, error) {
	stored := map[string]client.Blob{}
	for e, err := range u.to.List(ctx, to.Account, client.ListOptions{Prefix: to.Name, Delimiter: "/", Metadata: true}) {
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

// single adds a file that is an operand.
func (u *uploader) single(b *batch, source string, to operand.Remote, stored map[string]client.Blob) {
	if to.Folder() {
		to = below(asFolder(to), filepath.Base(source))
	}
	var known *client.Blob
	if blob, exists := stored[to.Name]; exists {
		known = &blob
	}
	b.UploadFile(source, b.item(u.to, to), known)
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
		return nil, exitWith(exitNotFound, fmt.Errorf("there is no file %s", terminal.Name(source)))
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
