// Package blob implements blobs and multipart uploads: it divides a body into extents and checks
// it, makes it visible, reads it back, and frees the bytes that are no longer referenced.
//
// It knows neither HTTP nor SQL nor the file system: bytes go into a bytestore.Store and everything
// else into a metastore.Store. Writes have a fixed order: first the bytes, then one metadata
// transaction that makes them visible, and deletes last. A crash therefore leaves at most objects
// that nothing refers to, which SweepOrphans removes.
//
// A process opens the instance's history, then calls New, and then Run in the background.
package blob

import "errors"

// Errors of this package. They are returned wrapped; use errors.Is to test for them. Errors from
// the two stores are returned as well.
var (
	// ErrIncompleteBody is returned if a body ended before its declared length.
	ErrIncompleteBody = errors.New("the body ended before its declared length")

	// ErrDigestMismatch is returned if a body does not have the given SHA-256.
	ErrDigestMismatch = errors.New("the body does not match its digest")

	// ErrTooLarge is returned if a blob would exceed MaxSize.
	ErrTooLarge = errors.New("the blob would be larger than 5 TiB")

	// ErrPutTooLong is returned if receiving a body took longer than metastore.MaxExtentAge.
	ErrPutTooLong = errors.New("receiving the body took longer than 12 hours")

	// ErrExpiryPast is returned if the expiry is not in the future.
	ErrExpiryPast = errors.New("the expiry is in the past")

	// ErrPartIndex is returned if a part's index is out of range.
	ErrPartIndex = errors.New("the part index is out of range")

	// ErrPartSize is returned if a part is too long, empty although the parts are even, or shorter
	// than the upload's part size without being the last part.
	ErrPartSize = errors.New("the part has a wrong size")

	// ErrPartsMissing is returned by Complete if the parts are not contiguous, or, if they are
	// uneven, there are none.
	ErrPartsMissing = errors.New("parts are missing")

	// ErrNoParts is returned by CompleteNamed if no part is named.
	ErrNoParts = errors.New("no part is named")

	// ErrPartOrder is returned by CompleteNamed if the parts are not named in ascending order.
	ErrPartOrder = errors.New("the parts are not named in ascending order")

	// ErrPartUnknown is returned by CompleteNamed if the upload has no part with that index, or it
	// has another ETag.
	ErrPartUnknown = errors.New("the upload has no such part with that ETag")

	// ErrPartTooSmall is returned by CompleteNamed if a part that is not the last is too small.
	ErrPartTooSmall = errors.New("the part is too small")

	// ErrSource is returned by the Body that Content.Body returns if the content cannot be read. It
	// wraps what WriteRange returns.
	ErrSource = errors.New("the source cannot be read")

	// ErrTotals is returned by Complete if the upload does not have the expected size or ETag.
	ErrTotals = errors.New("the upload does not have the expected totals")

	// ErrSourceChanging is returned by Copy and Move if the source was replaced again and again.
	ErrSourceChanging = errors.New("the source was replaced again and again while it was to be copied or moved")

	// ErrUploadChanging is returned by Complete if parts kept arriving.
	ErrUploadChanging = errors.New("parts kept arriving while the upload was completed")

	// ErrExists is returned by Complete if the upload was to create the blob and the blob exists.
	ErrExists = errors.New("the blob exists already")

	// ErrCut is returned if reading a content was ended because the blob was deleted or replaced
	// and its space is needed.
	ErrCut = errors.New("the blob was deleted or replaced while it was read, and its space is needed")

	// ErrLargeSweep is returned by SweepOrphans if it would delete too much.
	ErrLargeSweep = errors.New("the orphan sweep stopped because it would delete too much")
)

// Limits.
const (
	MaxSize     = 5 << 40 // a blob's bytes
	MaxPartSize = 5 << 30 // a part's bytes
	MaxParts    = 100_000 // parts of an upload; indexes are less than this

	// MaxNameLength is the greatest length of a blob name in UTF-16 code units, the unit in which
	// the public client counts.
	MaxNameLength = 1_024
)
