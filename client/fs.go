package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// FS returns an account's blobs with names below prefix as a file system. The prefix is a folder: a
// slash is appended unless it is empty or has one. The context limits all use of it.
//
// The file system also implements fs.ReadDirFS, fs.ReadFileFS, fs.StatFS and fs.SubFS. Its files
// implement io.ReaderAt and io.Seeker. A file is one version of its blob: if that is replaced,
// reads return ErrChanged. Errors are *fs.PathError, and are also fs.ErrNotExist or
// fs.ErrPermission where these apply.
//
// A folder is a part of names that ends with a slash, such as "a/" in "a/b" and "a/c". It exists as
// long as there is a blob in it, and has no time. Names that fs.ValidPath refuses, such as "a//b"
// and "../x", are left out. Where a blob has a folder's name, as "a" does beside "a/b", the folder
// is shown, and the blob is left out.
func (c *Client) FS(ctx context.Context, account, prefix string) fs.FS {
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return &blobFS{c, ctx, account, prefix}
}

type blobFS struct {
	c       *Client
	ctx     context.Context
	account string
	prefix  string
}

// blobName returns the blob's name for a valid path.
func (f *blobFS) blobName(name string) string { return f.prefix + name }

// folderPrefix returns the prefix that all names have in the folder at a valid path.
func (f *blobFS) folderPrefix(name string) string {
	if name == "." {
		return f.prefix
	}
	return f.prefix + name + "/"
}

// first returns the first blob with a name that begins with prefix, or nil.
func (f *blobFS) first(prefix string) (*Blob, error) {
	for e, err := range f.c.List(f.ctx, f.account, ListOptions{Prefix: prefix, PageSize: 1}) {
		return &e.Blob, err
	}
	return nil, nil
}

// stat describes a file or folder. The order of listings makes two requests sufficient: the first
// name with a given beginning is that beginning itself, if it exists.
func (f *blobFS) stat(op, name string) (fileInfo, error) {
	if !fs.ValidPath(name) {
		return fileInfo{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if name == "." {
		return fileInfo{name: ".", folder: true}, nil
	}
	inside, err := f.first(f.folderPrefix(name))
	if err != nil {
		return fileInfo{}, pathError(op, name, err)
	}
	if inside != nil {
		return fileInfo{name: path.Base(name), folder: true}, nil
	}
	b, err := f.first(f.blobName(name))
	if err != nil {
		return fileInfo{}, pathError(op, name, err)
	}
	if b == nil || b.Name != f.blobName(name) {
		return fileInfo{}, pathError(op, name, fs.ErrNotExist)
	}
	return fileInfo{name: path.Base(name), blob: *b}, nil
}

// pathError returns err as a *fs.PathError that belongs to the classes of package fs.
func pathError(op, name string, err error) error {
	switch {
	case errors.Is(err, ErrNotFound) || errors.Is(err, ErrGone):
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case errors.Is(err, ErrForbidden) || errors.Is(err, ErrBlocked) || errors.Is(err, ErrUnauthorized) || errors.Is(err, ErrPaymentRequired):
		err = fmt.Errorf("%w: %w", fs.ErrPermission, err)
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Open implements fs.FS. A file's content is not requested before it is read.
func (f *blobFS) Open(name string) (fs.File, error) {
	info, err := f.stat("open", name)
	if err != nil {
		return nil, err
	}
	if info.folder {
		return &folder{fs: f, path: name, info: info}, nil
	}
	o, err := f.c.OpenBlob(f.ctx, f.account, info.blob, GetOptions{})
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &file{o, info, name}, nil
}

// Stat implements fs.StatFS.
func (f *blobFS) Stat(name string) (fs.FileInfo, error) {
	info, err := f.stat("stat", name)
	if err != nil {
		return nil, err
	}
	return info, nil
}

// ReadFile implements fs.ReadFileFS. The content is verified.
func (f *blobFS) ReadFile(name string) ([]byte, error) {
	opened, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(opened)
	return content, errors.Join(err, opened.Close())
}

// Sub implements fs.SubFS.
func (f *blobFS) Sub(dir string) (fs.FS, error) {
	if !fs.ValidPath(dir) {
		return nil, &fs.PathError{Op: "sub", Path: dir, Err: fs.ErrInvalid}
	}
	if dir == "." {
		return f, nil
	}
	return &blobFS{f.c, f.ctx, f.account, f.folderPrefix(dir)}, nil
}

// ReadDir implements fs.ReadDirFS.
func (f *blobFS) ReadDir(name string) ([]fs.DirEntry, error) {
	info, err := f.stat("readdir", name)
	if err == nil && !info.folder {
		err = &fs.PathError{Op: "readdir", Path: name, Err: errors.New("not a directory")}
	}
	if err != nil {
		return nil, err
	}
	return f.list(name)
}

// list returns a folder's entries, by name.
func (f *blobFS) list(name string) ([]fs.DirEntry, error) {
	prefix := f.folderPrefix(name)
	found := map[string]fileInfo{}
	for e, err := range f.c.List(f.ctx, f.account, ListOptions{Prefix: prefix, Delimiter: "/"}) {
		if err != nil {
			return nil, pathError("readdir", name, err)
		}
		info := fileInfo{name: strings.TrimPrefix(e.Name, prefix), blob: e.Blob}
		if e.Prefix != "" {
			info = fileInfo{name: strings.TrimSuffix(strings.TrimPrefix(e.Prefix, prefix), "/"), folder: true}
		}
		if info.name == "." || !fs.ValidPath(info.name) {
			continue
		}
		if other, both := found[info.name]; !both || !other.folder {
			found[info.name] = info
		}
	}
	entries := make([]fs.DirEntry, 0, len(found))
	for _, info := range found {
		entries = append(entries, info)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// fileInfo describes a file or folder. It implements fs.FileInfo and fs.DirEntry.
type fileInfo struct {
	name   string
	blob   Blob
	folder bool
}

func (i fileInfo) Name() string               { return i.name }
func (i fileInfo) Size() int64                { return i.blob.Size }
func (i fileInfo) ModTime() time.Time         { return i.blob.LastModified }
func (i fileInfo) IsDir() bool                { return i.folder }
func (i fileInfo) Type() fs.FileMode          { return i.Mode().Type() }
func (i fileInfo) Info() (fs.FileInfo, error) { return i, nil }
func (i fileInfo) String() string             { return fs.FormatFileInfo(i) }

func (i fileInfo) Mode() fs.FileMode {
	if i.folder {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

// Sys returns a file's Blob, and nil for a folder.
func (i fileInfo) Sys() any {
	if i.folder {
		return nil
	}
	return i.blob
}

// file is an open file.
type file struct {
	*Object
	info fileInfo
	path string
}

func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }

func (f *file) Read(p []byte) (int, error) {
	n, err := f.Object.Read(p)
	return n, f.readError(err)
}

func (f *file) ReadAt(p []byte, offset int64) (int, error) {
	n, err := f.Object.ReadAt(p, offset)
	return n, f.readError(err)
}

func (f *file) Seek(offset int64, whence int) (int64, error) {
	n, err := f.Object.Seek(offset, whence)
	if err != nil {
		return n, pathError("seek", f.path, err)
	}
	return n, nil
}

// readError turns an error into one of package fs, except io.EOF.
func (f *file) readError(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return pathError("read", f.path, err)
}

// folder is an open folder.
type folder struct {
	fs      *blobFS
	path    string
	info    fileInfo
	entries []fs.DirEntry // that were not returned yet
	read    bool          // reports whether entries is set
}

func (d *folder) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *folder) Close() error               { return nil }

func (d *folder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.path, Err: errors.New("is a directory")}
}

// ReadDir implements fs.ReadDirFile.
func (d *folder) ReadDir(n int) ([]fs.DirEntry, error) {
	if !d.read {
		entries, err := d.fs.list(d.path)
		if err != nil {
			return nil, err
		}
		d.entries, d.read = entries, true
	}
	if n <= 0 {
		n = len(d.entries)
	} else if len(d.entries) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.entries))
	entries := d.entries[:n:n]
	d.entries = d.entries[n:]
	return entries, nil
}
