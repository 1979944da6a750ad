// Package metastore is the contract for the metadata of blobs: blobs, uploads, accounts, what each
// owner stores, and garbage. Its promises about transactions, waiting and time are those of package
// database. Package sqlstore implements it; package metatest is the conformance suite that an
// implementation must pass.
//
// # Order of writes
//
// The bytes of an extent that is not inline are stored durably in the byte store before the
// call that makes the extent part of a content, and are deleted only after its content has
// become garbage. An object that no extent refers to is an orphan, and is deleted too. A call
// refuses extents older than MaxExtentAge, and only orphans older than four times MaxExtentAge
// are deleted, so an orphan is never deleted before a call that still could refer to it.
package metastore

import (
	"errors"
	"time"
)

// Errors in addition to those of package database. They are wrapped; compare them with errors.Is.
var (
	// ErrAborted means that the upload was aborted, by a caller or because it was idle.
	ErrAborted = errors.New("metastore: upload aborted")
	// ErrCommitted means that the upload is complete already.
	ErrCommitted = errors.New("metastore: upload committed")
	// ErrRevisionMismatch means that the upload has changed since the revision that the
	// caller passed.
	ErrRevisionMismatch = errors.New("metastore: upload changed meanwhile")
	// ErrStaleExtent means that an extent is older than MaxExtentAge.
	ErrStaleExtent = errors.New("metastore: extent too old to commit")
)

const (
	// MaxExtentSize is the greatest length of an extent, in bytes.
	MaxExtentSize = 64 << 20
	// MaxExtentAge is the greatest age at which an extent may be committed; see the package
	// documentation about the order of writes.
	MaxExtentAge = 12 * time.Hour
	// ExpiredBlobGrace is for how long an expired blob is reported as ErrExpired. After that
	// it is ErrNotFound, and Purge removes it.
	ExpiredBlobGrace = 24 * time.Hour
	// UploadIdleLimit is how long an upload stays open after its last part was stored, or,
	// without parts, after it began.
	UploadIdleLimit = 24 * time.Hour
	// UploadRetention is how long an upload is retained after it ended.
	UploadRetention = 7 * 24 * time.Hour
)

// Limits of single calls, which keep transactions short.
const (
	// MaxSmallExtents is the greatest number of extents of a small content.
	MaxSmallExtents = 16
	// MaxContents is the greatest number of contents that may be passed to a call.
	MaxContents = 1000
)

// Store is the whole contract.
type Store interface {
	Blobs
	Accounts
	Uploads
	Usage
	Garbage
}
