package folder

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"

	"sluice/client"
)

// ErrEmpty is returned if there are no blobs below the source's prefix, or no files in its folder.
// It is the cause of a NotDeletedError if the source has nothing.
var ErrEmpty = errors.New("the source is empty")

// ErrIncomplete is the cause of a NotDeletedError if the source could not be listed or copied as a
// whole.
var ErrIncomplete = errors.New("some of the source could not be listed or copied")

// NotDeletedError means that Sync has not deleted files or blobs that the source seems to lack,
// because the source may have them nevertheless.
type NotDeletedError struct {
	Number int   // of files or blobs that remain in the target
	Err    error // ErrEmpty or ErrIncomplete
}

// Error returns the cause and the number.
func (e *NotDeletedError) Error() string {
	return fmt.Sprintf("%v, so %d of the target were not deleted", e.Err, e.Number)
}

// Unwrap returns the cause.
func (e *NotDeletedError) Unwrap() error { return e.Err }

// NoSourceError means that a blob that was to be moved does not exist, but a blob with its new name
// does: an earlier run may have moved it.
type NoSourceError struct {
	Target client.Blob // with the new name
	Err    error       // such as client.ErrNotFound
}

// Error returns the cause and the new name.
func (e *NoSourceError) Error() string { return fmt.Sprintf("%v; %s exists", e.Err, e.Target.Name) }

// Unwrap returns the cause.
func (e *NoSourceError) Unwrap() error { return e.Err }

// ListError means that some local folders could not be read.
type ListError struct{ Err error }

// Error returns a text with the folders.
func (e *ListError) Error() string { return fmt.Sprintf("some folders could not be read: %v", e.Err) }

// Unwrap returns the cause.
func (e *ListError) Unwrap() error { return e.Err }

// Error is the failure of one file or blob.
type Error struct {
	Source Item // or the prefix that could not be listed
	Target Item
	Err    error
}

// Error returns the source and the cause.
func (e *Error) Error() string { return e.Source.String() + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ConcernsAll reports whether an error of one transfer would be the error of every other: the
// service cannot be reached or is full, the local disk is full, the key is refused, the rate limit
// is exceeded, or a read is not paid for.
func ConcernsAll(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, syscall.ENOSPC) || slices.ContainsFunc(concernAll, func(class error) bool { return errors.Is(err, class) })
}

var concernAll = []error{
	client.ErrUnavailable, client.ErrUnauthorized, client.ErrForbidden, client.ErrRateLimited, client.ErrStorageFull,
	client.ErrPaymentRequired, client.ErrBudget, client.ErrTermsChanged, client.ErrNotDelivered,
}
