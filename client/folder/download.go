package folder

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"sluice/client"
	"sluice/client/folder/tree"
)

// Download adds the blobs below a prefix, which become files in a folder. It is created if it does
// not exist. under is "", or the path in the folder, with a slash at its end, below which they are
// written. Download lists the blobs, and reports those that are skipped. It returns ErrEmpty if
// there are none.
func (b *Batch) Download(ctx context.Context, from Prefix, to Dir, under string) error {
	t, err := b.open(string(to), true)
	if err != nil {
		return err
	}
	listed, err := b.addBlobs(ctx, from, t, under)
	if err == nil && listed == 0 {
		return ErrEmpty
	}
	return err
}

// addBlobs adds the blobs below a prefix, and reports those that are skipped. It returns the number
// of all.
func (b *Batch) addBlobs(ctx context.Context, from Prefix, t *target, under string) (listed int, err error) {
	for e, err := range from.Client.List(ctx, from.Account, client.ListOptions{Prefix: from.name(), Metadata: b.o.Preserve}) {
		if err != nil {
			return listed, &Error{Source: from.item(""), Err: err}
		}
		listed++
		if !b.o.Filter.Includes(strings.TrimPrefix(e.Name, from.name())) {
			continue
		}
		item := Item{Client: from.Client, Account: from.Account, Name: e.Name}
		path, err := t.path(under + strings.TrimPrefix(e.Name, from.name()))
		if err != nil {
			b.conclude(&job{source: item}, Event{Kind: Skipped, Err: err})
			continue
		}
		b.addBlob(item, t, path, &e.Blob)
	}
	return listed, nil
}

// DownloadBlob adds a single blob that becomes the file with a name in a folder, which must exist.
// It returns tree.ErrNotLocal, ErrTemporary or a *tree.CollisionError if there can be no such file.
func (b *Batch) DownloadBlob(from Item, to Dir, name string) error {
	t, err := b.open(string(to), false)
	if err != nil {
		return err
	}
	path, err := t.path(name)
	if err == nil {
		b.addBlob(from, t, path, nil)
	}
	return err
}

// DownloadFile adds a single blob that becomes the file at path, in a folder that must exist.
func (b *Batch) DownloadFile(from Item, path string) error {
	t, err := b.open(filepath.Dir(path), false)
	if err == nil {
		b.addBlob(from, t, filepath.Base(path), nil)
	}
	return err
}

// addBlob adds the job that writes a blob to a file. known is the blob if it was listed.
func (b *Batch) addBlob(from Item, t *target, path string, known *client.Blob) {
	d := &download{from: from, root: t.root, path: path, known: known, size: -1, dryRun: b.o.DryRun, options: b.o.Get}
	etag := ""
	if known != nil {
		d.size, etag = known.Size, known.ETag
	}
	b.transfers = append(b.transfers, job{source: from, target: Item{Name: filepath.Join(t.dir, path)}, size: d.size, etag: etag, run: d.run, publisher: t.publisher})
}

// download writes a blob to a file. The file is written through the os.Root of its folder, and
// symbolic links are not followed.
type download struct {
	from  Item
	root  *os.Root
	path  string       // in root
	known *client.Blob // the file is not read again if it has the content of this blob
	size  int64

	dryRun  bool
	options client.DownloadOptions
}

func (d *download) run(ctx context.Context, progress func(done, total int64)) (outcome, error) {
	d.options.Root, d.options.Progress, d.options.Version = d.root, progress, d.from.Version
	if d.known != nil {
		same, err := d.hasContent(ctx)
		if err != nil {
			return outcome{}, err
		}
		if same && d.options.Restore && !d.dryRun {
			err = client.RestoreFile(d.root, d.path, d.known.Metadata)
		}
		if same {
			return outcome{size: d.known.Size, etag: d.known.ETag, unchanged: true}, errors.Join(err, d.forget())
		}
	}
	if d.dryRun && d.known == nil {
		b, err := d.from.Client.HeadVersion(ctx, d.from.Account, d.from.Name, d.from.Version)
		return outcome{size: b.Size, etag: b.ETag}, err
	}
	if d.dryRun {
		return outcome{size: d.size}, nil
	}
	if err := tree.MakeFolders(d.root, d.path); err != nil {
		return outcome{}, err
	}
	f, err := d.from.Client.ReceiveFile(ctx, d.from.Account, d.from.Name, d.path, d.options)
	if err != nil {
		return outcome{}, err
	}
	return outcome{size: f.Blob().Size, etag: f.Blob().ETag, received: f}, nil
}

// hasContent reports whether the file has the blob's content.
func (d *download) hasContent(ctx context.Context) (bool, error) {
	if d.root == nil {
		return false, nil
	}
	f, err := tree.Open(d.root, d.path)
	if err != nil { // there is none, or it cannot be read: it is replaced, if that is possible
		return false, nil //nolint:nilerr // see above
	}
	same, err := sameContent(ctx, f, d.known)
	return same, errors.Join(err, f.Close())
}

// forget removes an interrupted download's files, which are not needed any more.
func (d *download) forget() error {
	if d.dryRun {
		return nil
	}
	err := d.from.Client.ForgetDownload(d.from.Account, d.from.Name, d.path, client.DownloadOptions{Root: d.root})
	if errors.Is(err, client.ErrBusy) { // it belongs to another process
		return nil
	}
	return err
}
