package client

import (
	"context"
	"errors"
	"os"
	"slices"
)

// DownloadFile reads a blob in parallel ranges into a file. The file appears, or is replaced, as a
// whole, after its bytes were verified and are durable: they are written to a temporary file in the
// same folder, which is renamed. If they do not match the blob's ETag or SHA-256, it returns
// ErrCorrupt, and nothing remains.
//
// A blob that is larger than a range can be resumed: if an error interrupts DownloadFile, or the
// context or the process ends, a later call for the same path, account and name requests only the
// ranges that are not on disk. The ETag and the checksum of each range on disk are in a state file
// with mode 0600 in the same folder. If the blob was replaced since, the download starts again. The
// temporary file has the mode 0600, too, until it is complete. In a folder to which other users can
// write, nothing that another user has made is continued, written to or followed, nor a file with
// several names.
//
// It returns ErrInvalid if there is a folder, a device or a pipe at path, ErrChanged if the blob is
// replaced during the call, and ErrBusy if another call for the same path, account and name is in
// progress.
func (c *Client) DownloadFile(ctx context.Context, account, name, path string, o DownloadOptions) (Blob, error) {
	f, err := c.ReceiveFile(ctx, account, name, path, o)
	if err != nil {
		return Blob{}, err
	}
	b := f.Blob()
	if err := publish(nil, []*ReceivedFile{f})[0]; err != nil {
		return Blob{}, err
	}
	return b, nil
}

// ReceiveFile is DownloadFile for a FileGroup that publishes the file: until then its bytes, which
// were verified, are in the temporary file. If the process ends first, no file appears; a later
// call continues as after an interrupted DownloadFile.
func (c *Client) ReceiveFile(ctx context.Context, account, name, path string, o DownloadOptions) (_ *ReceivedFile, err error) {
	d, err := c.openFileDownload(account, name, path, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if err := checkTarget(o.Root, path); err != nil {
		return nil, err
	}
	if err := d.lock(); err != nil {
		return nil, err
	}
	if err := d.transfer(ctx); err != nil {
		return nil, d.abandon(err)
	}
	return &ReceivedFile{d}, nil
}

// ReceivedFile is a blob that ReceiveFile has received. Publish must be called with it.
type ReceivedFile struct{ d *fileDownload }

// Blob returns the blob.
func (f *ReceivedFile) Blob() Blob { return f.d.blob }

// FileGroup makes received files durable together. On Linux 5.8 and later, and on ext4, XFS and
// Btrfs, one sync of the file system does that for many files; it also waits for other programs'
// writes there. Otherwise each file is synced.
type FileGroup struct{ system *fileSystem }

// minTogether is the least number of files for which a sync of the file system takes less time.
const minTogether = 8

// NewFileGroup returns a group for files below root that ReceiveFile begins later. It must be
// closed.
func NewFileGroup(root *os.Root) (*FileGroup, error) {
	system, err := openFileSystem(root)
	return &FileGroup{system}, err
}

// Close releases the group's resources.
func (g *FileGroup) Close() error { return g.system.close() }

// Publish makes files durable and then renames them to their names. It returns one error for each
// file, in their order, or nil in its place. A file that fails is removed or can be resumed, as
// after DownloadFile. The files must not be used again.
func (g *FileGroup) Publish(files []*ReceivedFile) []error { return publish(g.system, files) }

// publish implements Publish. Without a file system each file is synced.
func publish(system *fileSystem, files []*ReceivedFile) []error {
	errs := make([]error, len(files))
	each := func(do func(*fileDownload) error) {
		for i, f := range files {
			if errs[i] == nil {
				errs[i] = do(f.d)
			}
		}
	}
	modes := map[string]os.FileMode{}
	each(func(d *fileDownload) error { return d.prepare(modes) })
	if len(files) >= minTogether && !slices.ContainsFunc(files, func(f *ReceivedFile) bool { return !system.has(f.d.file) }) {
		err := system.sync()
		each(func(*fileDownload) error { return err })
	} else {
		each(func(d *fileDownload) error { return d.file.Sync() })
	}
	each((*fileDownload).rename)
	folders := map[string]error{}
	each(func(d *fileDownload) error {
		dir := d.root.Name()
		if _, synced := folders[dir]; !synced {
			folders[dir] = syncFolder(dir)
		}
		return folders[dir]
	})
	each(func(d *fileDownload) error { return d.state.remove() })
	for i, f := range files {
		if errs[i] != nil {
			errs[i] = f.d.abandon(f.d.failed(errs[i]))
		}
		errs[i] = errors.Join(errs[i], f.d.close())
	}
	return errs
}
