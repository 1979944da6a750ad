// Package metastore is the contract for blobs' metadata: blobs, uploads, accounts, owners' usage,
// garbage, and damage. Package database states its promises about transactions, waiting and time.
// Package sqlstore implements it; package metatest is the conformance suite that an implementation
// must pass.
//
// # Order of writes
//
// If an extent is not inline, its life is in this order:
//
//  1. Its bytes are stored durably in the byte store, as an object.
//  2. A call makes the extent part of a content. It refuses extents older than MaxExtentAge.
//  3. The content becomes garbage, when the last blob or upload that has it is gone.
//  4. The object is deleted.
//
// An object to which no extent refers is an orphan, and is deleted too, but only if it is older
// than four times MaxExtentAge. So an orphan is never deleted before a call that could still refer
// to it.
//
// HealExtent replaces a damaged extent's object by one with the right bytes, and makes the old one
// garbage. HealBody replaces an inline extent's bytes.
package metastore

import (
	"errors"
	"time"
)

// Errors in addition to package database's. They are wrapped; compare them with errors.Is.
var (
	// ErrAborted means that the upload was aborted, by a caller or because it was idle.
	ErrAborted = errors.New("metastore: upload aborted")
	// ErrNoSource means that the blob to be copied or moved does not exist or has expired. It wraps
	// database.ErrNotFound or database.ErrExpired.
	ErrNoSource = errors.New("metastore: no source")
	// ErrCommitted means that the upload is complete already.
	ErrCommitted = errors.New("metastore: upload committed")
	// ErrRevisionMismatch means that the upload no longer has the revision that the caller passed.
	ErrRevisionMismatch = errors.New("metastore: upload changed meanwhile")
	// ErrStaleExtent means that an extent is older than MaxExtentAge.
	ErrStaleExtent = errors.New("metastore: extent too old to commit")
)

const (
	// MaxExtentSize is an extent's greatest size, in bytes.
	MaxExtentSize = 64 << 20
	// MaxExtentAge is the greatest age at which an extent may be committed; see "Order of writes"
	// above.
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
	// MaxSmallExtents is the greatest number of extents in a small content.
	MaxSmallExtents = 16
	// MaxContents is the greatest number of contents that may be passed to a call.
	MaxContents = 1000
)

// Store is the whole contract.
type Store interface {
	Blobs
	Accounts
	Aliases
	Uploads
	Usage
	Garbage
	Integrity
	Scrubs
	Versions
	Rules
	Changes
	Webhooks
}
