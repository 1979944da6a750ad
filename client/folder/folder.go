// Package folder copies whole folders to a service, from it, and between services.
//
// Upload stores a folder's files as blobs below a prefix, Download writes the blobs below a prefix
// into a folder, and Copy copies them to another prefix, also of another service. Sync does any of
// the three and can then delete names that the source lacks. A Batch combines several of these, and
// single files, into one run; it also moves blobs within a service. Progress arrives as Events.
//
// A file docs/a.txt and the prefix site/ become the blob site/docs/a.txt, and vice versa.
//
// # Second runs
//
// A file or blob is left alone if the other side has it already: its size and its ETag, a checksum
// of all its bytes, are the same and, unless Options.ContentOnly is set, the properties with which
// it would be stored are, too. So a second run after an interruption copies the rest. It continues
// a large file where the first one ended, as client.PutFile and client.DownloadFile do. Copy needs
// Options.StateDir for that.
//
// Both sides are listed before anything is copied. A Batch keeps an entry for each of their files
// and blobs in memory.
//
// # Changes meanwhile
//
// A listing is no snapshot, but each file is: a blob has the bytes that its file had throughout one
// transfer, and a file appears as a whole, verified and durable. If the source changes during its
// transfer, this one file fails with client.ErrChanged, and a later run copies it. A source
// folder's listing decides which files it has: if a file becomes a symbolic link before its turn,
// Upload reads the link's target.
//
// # Links and names
//
// Upload skips everything that is neither a regular file nor a folder: a symbolic link, a pipe, a
// socket, a device. Download follows no symbolic link below its folder. A blob fails if its file
// would be below a link; a link in the file's own place is replaced. So no blob becomes a file
// outside the folder.
//
// Download skips blobs that cannot have a file: "../x" and "a//b" are not paths within a folder,
// "README" and "readme" are one file on some file systems, and "a" cannot be a file beside "a/b".
// If two collide, the first in byte order is written. Files that transfers use for themselves (see
// client.IsTemporary) are neither stored nor written.
//
// # Errors
//
// A file that fails does not end the run. The functions here return an error that joins an *Error
// for each file that failed, at most 100 of them. Options.Report sees every failure, and errors.Is
// finds the class of a cause, such as client.ErrForbidden. But after an error that every other file
// would meet (see ConcernsAll), no further transfer begins. When the context ends, none begins, and
// those in progress end soon.
package folder

import (
	"context"
	"errors"
)

// SyncOptions are the options of Sync.
type SyncOptions struct {
	Options

	// Delete deletes names from the target that the source does not have, after everything was
	// copied. If the source is empty, or if some of it could not be listed or copied, nothing is
	// deleted: see NotDeletedError.
	Delete bool

	// Force makes Delete delete in these cases, too.
	Force bool
}

// Upload stores the files in a folder and in its subfolders below a prefix. It returns
// fs.ErrNotExist if the folder does not exist, ErrEmpty if there is nothing in it, and a *ListError
// if not all of it can be read; then it stores nothing. With a key that may only write, it stores
// every file, because it cannot list the blobs.
func Upload(ctx context.Context, from Dir, to Prefix, o Options) (Summary, error) {
	return run(ctx, o, func(b *Batch) error { return b.Upload(ctx, from, to) })
}

// Download writes the blobs below a prefix into a folder, which is created if it does not exist. It
// returns ErrEmpty if there are none.
func Download(ctx context.Context, from Prefix, to Dir, o Options) (Summary, error) {
	return run(ctx, o, func(b *Batch) error { return b.Download(ctx, from, to, "") })
}

// Copy copies the blobs below a prefix to another, also of another service, with their properties.
// If both prefixes have the same Client, the service copies, as far as it permits that. Otherwise
// the bytes pass through this process and are compared with the source's ETag before a blob is
// visible. It returns ErrEmpty if there are none.
func Copy(ctx context.Context, from, to Prefix, o Options) (Summary, error) {
	return run(ctx, o, func(b *Batch) error { return b.Copy(ctx, from, to) })
}

// Sync makes a folder or prefix like another: it copies names that differ in content and, on
// request, deletes names that the source does not have. One end must be a Prefix, otherwise it
// returns client.ErrInvalid. If a folder cannot be read as a whole, it copies the readable files,
// deletes nothing, and returns a *ListError.
//
// With Options.TrackRenames, a content that a prefix has under another name, with the same size and
// ETag, is not transferred: the service copies the blob. With Delete it moves, once, a blob that
// would be deleted, after everything else was copied. A moved blob keeps its properties; if it is
// to get new ones, by Options.Put or because its content type follows its name, it is copied with
// them and then deleted. Copies get the properties that they would have otherwise. In a folder,
// Delete renames a file that would be removed. If the service or the key cannot do that, or if
// something has changed meanwhile, the content is transferred. Local files are read for this only
// if something in question has their size. Empty contents are transferred.
func Sync(ctx context.Context, from, to End, o SyncOptions) (Summary, error) {
	return run(ctx, o.Options, func(b *Batch) error { return b.Sync(ctx, from, to, o.Delete, o.Force) })
}

// run runs a batch that add fills.
func run(ctx context.Context, o Options, add func(*Batch) error) (s Summary, err error) {
	b := NewBatch(o)
	defer func() {
		if closeErr := b.Close(); closeErr != nil {
			err = errors.Join(err, closeErr)
		}
	}()
	if err := add(b); err != nil {
		return b.sum, err
	}
	return b.Run(ctx)
}
