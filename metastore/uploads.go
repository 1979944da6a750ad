package metastore

import (
	"context"
	"time"
)

// UploadState is an upload's state.
type UploadState string

// An upload's states. It is open at first; the other states are final.
const (
	UploadOpen      UploadState = "open"
	UploadCommitted UploadState = "committed"
	UploadAborted   UploadState = "aborted"
)

// Upload is a multipart upload.
type Upload struct {
	ID          string // unguessable, created by the caller
	Account     string
	Name        string
	Content     ContentID // new, created by the caller
	PartSize    int64     // bytes of every part except the last; 0: the parts are uneven, see CompleteUneven
	ContentType string
	Metadata    string    // the resulting blob's
	Expires     time.Time // the resulting blob's; zero: never
	CreateOnly  bool      // the upload can be completed only if there is no blob under that name
	Owner       string    // the owner who is charged for the parts, and then for the blob, see Usage; empty: none
	By          string    // the resulting blob's
	Lock        Lock      // the resulting blob's, see Blob; its Until is by the clock as it was then

	// Set by the store.
	State    UploadState
	Bytes    int64     // total size: present, or at the end
	Parts    int64     // number of parts present; 0 after the end
	Revision int64     // grows with every change to the parts
	Created  time.Time // when it began
	Touched  time.Time // when it began or its last part was stored
	Ended    time.Time // when it was committed or aborted; zero while open

	// The outcome, which the store sets on completion.
	Size     int64
	CRC64    uint64
	Modified time.Time
	// Versioned is the blob's, which has the upload's Content and Modified.
	Versioned bool
}

// Part is an upload's part, as last written.
type Part struct {
	Index int
	Size  int64
	CRC64 uint64 // CRC-64/NVME of its bytes
	// Checksum is the checksum by another algorithm that the part keeps, as the caller writes it;
	// empty: none.
	Checksum string
	// Stored is when it was stored; for one that an earlier version stored, when the upload began.
	// The store sets it.
	Stored time.Time
}

// MaxUnevenParts is the greatest number of parts that CompleteUneven takes.
const MaxUnevenParts = 10_000

// Uploads stores the multipart uploads. An ended upload is retained for UploadRetention, without
// its parts, ContentType and Metadata; after that all methods return ErrNotFound.
type Uploads interface {
	// BeginUpload stores a new, open upload and returns it as stored.
	BeginUpload(ctx context.Context, u Upload) (Upload, error)

	// Upload returns an upload in any state, or ErrNotFound.
	Upload(ctx context.Context, id string) (Upload, error)

	// PutPart makes the extents the content of part p.Index; the part's previous content becomes
	// garbage. The extents must be all of that part's. It returns ErrNotFound, ErrAborted,
	// ErrCommitted or ErrStaleExtent.
	PutPart(ctx context.Context, uploadID string, p Part, extents []Extent) error

	// Parts returns up to limit of an open upload's parts with an index greater than after, sorted
	// by index. To start with the first part, pass -1 as after. An ended upload has none.
	Parts(ctx context.Context, uploadID string, after, limit int) ([]Part, error)

	// CompleteUpload makes an open upload's content visible as a blob with this size and CRC-64 and
	// with the upload's ContentType, Metadata, Expires and Owner, and records the outcome, provided
	// that the upload is still at revision. An upload without a PartSize must have no part but part
	// 0; any other is completed by CompleteUneven. CompleteUpload moves no parts, and its cost does
	// not grow with their number. Repeated on a committed upload, it returns the recorded outcome,
	// whatever revision, size and crc64 are, without calling the precondition. The precondition may
	// be nil.
	//
	// It returns ErrNotFound, ErrAborted, ErrRevisionMismatch, ErrExpired if the blob's
	// expiry has passed (without calling the precondition), or the precondition's error.
	// After an error the upload is unchanged.
	CompleteUpload(ctx context.Context, id string, revision, size int64, crc64 uint64, precondition Precondition) (Upload, error)

	// CompleteUneven is CompleteUpload for an upload without a PartSize. The blob has this metadata
	// and not the upload's, and its content consists of these parts, 1 to MaxUnevenParts with
	// ascending Index, as they are at revision; only the last may be empty. The upload's other
	// parts become garbage. If the chosen parts are even and have no Checksum, the blob has an
	// ordinary PartSize; otherwise it has UnevenParts. The cost grows with the number of parts, and
	// if some are not chosen, with the number of their extents. Parts that are not the upload's are
	// refused as far as their number and their sizes show it.
	CompleteUneven(ctx context.Context, id string, revision int64, parts []Part, crc64 uint64, metadata string, precondition Precondition) (Upload, error)

	// AbortUpload ends an open upload, and its parts become garbage. It returns the content's id,
	// even when it is repeated. It returns ErrNotFound or ErrCommitted.
	AbortUpload(ctx context.Context, id string) (ContentID, error)

	// ListUploads returns up to limit of an account's open uploads, the oldest first, starting
	// after the upload with the id after, or with the first if after is empty, and whether there
	// are more. An upload that has ended may be passed as after for as long as it is retained. It
	// returns ErrNotFound if after is unknown. The names, content types and metadata, with
	// database.EntryCharge for each upload, have at most the given bytes; 0 is no bound, and the
	// first upload is always returned.
	ListUploads(ctx context.Context, account, after string, limit int, bytes int64) (list []Upload, more bool, err error)

	// OpenUploads returns up to limit open uploads of all accounts, sorted by id, with ids greater
	// than after, and whether there are more. bytes is as in ListUploads.
	OpenUploads(ctx context.Context, after string, limit int, bytes int64) (list []Upload, more bool, err error)

	// UploadsByName returns up to q.Limit of an account's open uploads, sorted by name (bytewise)
	// and a name's uploads by when they began, and whether there are more. Otherwise it is like
	// ListUploads. The cost depends on the page alone, not on the uploads before or after it.
	UploadsByName(ctx context.Context, q UploadsQuery) (list []Upload, more bool, err error)
}

// UploadsQuery selects uploads with names from From on, and behind a place.
type UploadsQuery struct {
	Account string
	From    string
	// AfterName and AfterID are the place: the upload with this name and id, or if AfterID is
	// empty, the last upload with this name. Both are empty to begin with the first.
	AfterName, AfterID string
	Limit              int
	Bytes              int64 // as in ListUploads
}
