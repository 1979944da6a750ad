// Package bytestore defines the contract for a store of immutable objects. It knows nothing of
// blobs and uploads: package blob divides a body into objects ("extents"), and package metastore
// records which extents make up which blob.
//
// Package localfs implements the contract in a folder, s3 in an S3-compatible object store's
// bucket, cached as a local cache in front of another store, and memory in memory, for tests.
// Package bytetest is the conformance suite that every implementation must pass.
package bytestore

import (
	"context"
	"errors"
	"io"
	"syscall"
)

// Errors that a Store's methods return, wrapped. Use errors.Is to test for them.
var (
	// ErrNotFound is returned if no object has the name.
	ErrNotFound = errors.New("bytestore: object not found")

	// ErrExists is returned by Put if an object with the name exists. That object is unchanged.
	ErrExists = errors.New("bytestore: object exists")

	// ErrNoSpace is returned by Put if the store is full, or if only its reserve is left. Deletes
	// still succeed.
	ErrNoSpace = errors.New("bytestore: no space left")

	// ErrSize is returned by Put if its source does not have the declared size.
	ErrSize = errors.New("bytestore: source does not have the declared size")

	// ErrTruncated is returned if an object is shorter than the requested range.
	ErrTruncated = errors.New("bytestore: object is shorter than the range")

	// ErrInvalidName is returned if a name does not have the form that Name defines.
	ErrInvalidName = errors.New("bytestore: invalid name")

	// ErrOverloaded is returned if the store is busy or unreachable. A retry may succeed.
	ErrOverloaded = errors.New("bytestore: overloaded")
)

// UnknownSize is a Put's size if the object ends where its source ends.
const UnknownSize = -1

// Store stores immutable objects. All methods may be called concurrently, even with the same name.
// Put, Open and Delete return ErrInvalidName for a name that is not valid.
type Store interface {
	// Put stores exactly size bytes of src under name, or all of src if size is UnknownSize. Once
	// it returns nil, the object is complete, visible to Open and List, and survives a power
	// failure.
	//
	// If it returns an error, no object is visible under name, with one exception: ErrExists, if
	// there was an object before. Objects are never replaced: of concurrent Puts of one name
	// exactly one succeeds.
	//
	// Put returns ErrSize if src ends before size bytes or continues after them. It wraps an error
	// of src, and returns the error of ctx if ctx ends before the object is stored. It must not
	// wait for the source of another Put, not even of one with the same name.
	Put(ctx context.Context, name Name, src io.Reader, size int64) error

	// Open opens an object for reading n bytes from offset off; neither is negative. It returns
	// ErrNotFound if there is no such object, and ErrTruncated if off+n exceeds its size. The
	// caller must read at most n bytes, because the reader need not end after them, and must Close
	// the reader.
	//
	// If the reader returns io.EOF before n bytes, ErrNotFound or ErrTruncated, the object is
	// damaged or gone. Any other error is not about the object: it is ErrOverloaded if the store
	// cannot be reached, or if its responses keep breaking off despite retries.
	//
	// An open reader should remain readable after Delete, but need not: callers must not delete an
	// object while they read it.
	//
	// A reader that implements fs.File, io.Seeker and syscall.Conn, as *os.File does, can be sent
	// by package net without copying, and a Positioned by package httpconn.
	Open(ctx context.Context, name Name, off, n int64) (io.ReadCloser, error)

	// Delete removes any number of objects. Objects that do not exist count as removed. Once it
	// returns nil, none of them is visible and their space is freed. Any other result is an
	// Undeleted: the objects that it does not name are removed. A failure to remove one object must
	// not prevent the remaining removals.
	//
	// A Delete need not survive a power failure: callers repeat it.
	Delete(ctx context.Context, names ...Name) error

	// List calls fn for each object with a name greater than after, in ascending byte order by
	// name. If fn returns an error, List stops and returns it unwrapped. If ctx ends, List returns
	// its error. An object that is stored or deleted during the call may or may not be listed;
	// every other object is listed exactly once.
	List(ctx context.Context, after Name, fn func(Object) error) error
}

// Positioned is a reader of a shared file: it has an offset of its own, and neither uses nor
// changes the file's position.
type Positioned interface {
	io.ReadSeeker
	// Position returns the file, and the offset at which the next Read begins. The file is open
	// until the reader is closed. It is nil if it is not the operating system's.
	Position() (file syscall.RawConn, offset int64)
}

// Object is a listing's entry.
type Object struct {
	Name Name
	Size int64 // in bytes
}

// Invalidator is implemented by a Store that caches another Store's objects.
type Invalidator interface {
	// Invalidate drops an object's cached copies because they were found to be damaged. The next
	// Open reads the object from the underlying store.
	Invalidate(name Name)
}
