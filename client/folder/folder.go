// Package folder copies whole folders to a service, from it, and between services.
//
// A Batch runs transfers together. Its Upload stores a folder's files as blobs below a prefix,
// Download writes the blobs below a prefix into a folder, and Copy copies them to another prefix,
// even of another service. Sync does any of the three and can then delete names that the source
// lacks. A Batch also transfers single files, and moves blobs within a service. Progress arrives as
// Events.
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
// A file that fails does not end the run. Run returns an error that joins an *Error
// for each file that failed, at most 100 of them. Options.Report sees every failure, and errors.Is
// finds the class of a cause, such as client.ErrForbidden. But after an error that every other file
// would meet (see ConcernsAll), no further transfer begins. When the context ends, none begins, and
// those in progress end soon.
package folder
