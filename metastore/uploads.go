package metastore

import (
	"context"
	"time"
)

// UploadState is where an upload stands.
type UploadState string

// The states of an upload. It begins open; the others are final.
const (
	UploadOpen      UploadState = "open"
	UploadCommitted UploadState = "committed"
	UploadAborted   UploadState = "aborted"
)

// Upload is a multipart upload.
type Upload struct {
	ID          string // unguessable, made by the caller
	Account     string
	Name        string
	Content     ContentID // fresh, made by the caller
	PartSize    int64
	ContentType string
	Expires     time.Time // of the blob to be; zero: never
	CreateOnly  bool      // the commit must find no blob of that name
	Owner       string    // whose usage its parts, and then the blob, count towards; empty: nobody's

	// Set by the store.
	State    UploadState
	Bytes    int64     // sum of the parts present
	Parts    int64     // how many there are
	Revision int64     // grows with every change of the parts
	Created  time.Time //
	Touched  time.Time // when it began or its last part was put
	Ended    time.Time // when it was committed or aborted; zero while open

	// The recorded outcome, once committed.
	Size     int64
	CRC64    uint64
	Modified time.Time
}

// Part is one part of an upload, as last written.
type Part struct {
	Index int
	Size  int64
	CRC64 uint64 // CRC-64/NVME of its bytes
}

// Uploads are the multipart uploads. An ended upload is remembered for
// UploadRetention and then ErrNotFound.
type Uploads interface {
	// BeginUpload stores a fresh, open upload and returns it as stored.
	BeginUpload(ctx context.Context, u Upload) (Upload, error)

	// Upload gives an upload in whatever state it is.
	Upload(ctx context.Context, id string) (Upload, error)

	// PutPart makes these extents (all of part p.Index) the part's content.
	// What the part held before becomes garbage. ErrNotFound, ErrAborted,
	// ErrCommitted, ErrStaleExtent.
	PutPart(ctx context.Context, uploadID string, p Part, extents []Extent) error

	// Parts gives up to limit parts whose index is greater than after (-1: from
	// the start), by index.
	Parts(ctx context.Context, uploadID string, after, limit int) ([]Part, error)

	// CompleteUpload makes the upload's content visible as a blob of this size
	// and CRC and of the upload's Owner, provided that the upload is open and still at revision, and
	// records the outcome. It moves no parts: its cost does not grow with them.
	// Repeated on a committed upload it returns the recorded outcome, whatever
	// revision, size and crc64 are, and guard is not asked. ErrNotFound,
	// ErrAborted, ErrRevisionMismatch; ErrExpired when the blob's expiry has passed by
	// then: guard is not asked. guard may be nil; a refusal leaves the upload
	// open and unchanged.
	CompleteUpload(ctx context.Context, id string, revision, size int64, crc64 uint64, guard Precondition) (Upload, error)

	// AbortUpload ends an open upload and makes its parts garbage. Repeated: nil.
	// It returns the id of the content. ErrNotFound, ErrCommitted.
	AbortUpload(ctx context.Context, id string) (ContentID, error)

	// ListUploads gives up to limit open uploads of the account by creation,
	// beginning behind the upload whose id is after (empty: at the oldest). An
	// upload that ended since is good as after for as long as it is remembered;
	// an unknown one is ErrNotFound.
	ListUploads(ctx context.Context, account, after string, limit int) ([]Upload, error)
}
