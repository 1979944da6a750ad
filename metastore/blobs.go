package metastore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// ContentID names one immutable content: the bytes of one version of a blob,
// or of one upload. Ids ascend with the time of their making.
type ContentID [16]byte

// NewContentID makes a fresh id: 48 bits of milliseconds, then 80 random bits.
func NewContentID(now time.Time) ContentID {
	var id ContentID
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16)
	rand.Read(id[6:])
	return id
}

// String gives the id as 32 hex digits.
func (id ContentID) String() string { return hex.EncodeToString(id[:]) }

// Blob is what is known of a blob. Account and Name are stored and ordered as
// bytes.
type Blob struct {
	Account     string
	Name        string
	Content     ContentID
	Size        int64  // bytes
	CRC64       uint64 // CRC-64/NVME of the content; with Size, the ETag
	PartSize    int64  // size of every part of the content but the last; 0: one part, number 0
	SHA256      []byte // of the content; nil when not known
	ContentType string // as the writer gave it, or empty
	Owner       string // whose usage it counts towards; empty: nobody's
	// Modified is set by the store at the commit: now, but never before that of the
	// version that it takes the place of, nor of one that was deleted shortly before.
	Modified time.Time
	// SharedSecond says that an earlier version of this name may have been modified in
	// the same second as this one, or later. It is set by the store at the commit.
	SharedSecond bool
	Expires      time.Time // zero: never
}

// Extent is a run of a content's bytes that is stored as one object, or, when
// it is small, inline in the metadata. A content's extents are ordered by Part,
// then Offset, and cover each part without gap or overlap.
type Extent struct {
	Part   int      // number of the part, from 0
	Offset int64    // of the extent's first byte, within its part
	Size   int64    // bytes, 1 to MaxExtentSize
	Blocks []uint32 // CRC-32C of each MiB of the extent, counted from its start
	Key    string   // of the object in the byte store; empty when inline
	Body   []byte   // the bytes themselves when inline, else nil
	// Created is when the object's key was made; not stored, only checked
	// against MaxExtentAge by the verbs that take extents in. Inline: ignored.
	Created time.Time
}

// Position is a place in a content.
type Position struct {
	Part   int
	Offset int64 // within the part
}

// Precondition decides inside a transaction whether a write may go on. It is given
// the blob that the write would replace or delete, nil when there is none or it
// has expired. Its error aborts the transaction and is returned as it is. A
// Precondition is pure and may be called more than once.
type Precondition func(current *Blob) error

// ListQuery asks for a page of an account's blobs.
type ListQuery struct {
	Account   string
	Prefix    string // only names that begin with it
	Delimiter string // when set, names that hold it after the prefix are grouped
	After     string // only names and groups greater than it
	Limit     int    // entries, names and groups together, at least 1
}

// Page is a page of a listing. Blobs and Prefixes are each in byte order.
type Page struct {
	Blobs    []Blob
	Prefixes []string // groups: the prefix, and on to the end of the delimiter
	Next     string   // After for the next page; empty on the last one
}

// Blobs are the named contents. Expired blobs are not listed, and count as
// absent wherever a Precondition looks.
type Blobs interface {
	// Blob finds a blob. ErrExpired for ExpiredBlobGrace after its expiry;
	// ErrNotFound later, and when there is none.
	Blob(ctx context.Context, account, name string) (Blob, error)

	// CommitBlob makes b visible with these extents as its content, in place
	// of the blob of that name, whose content becomes garbage. The extents are
	// those of part 0, in order; none for an empty blob. b.Content is fresh,
	// b.PartSize is 0, b.Modified and b.SharedSecond are ignored. It returns the blob as stored.
	// guard may be nil. ErrStaleExtent when an extent is too old; ErrExpired
	// when the blob's own expiry has passed by then: guard is not asked.
	//
	// Of a long list extents may be written ahead, in transactions of their own.
	// Until the commit their content is neither live nor garbage. It becomes
	// garbage at an error of this call, or, when a crash comes in between, by a
	// Purge four times MaxExtentAge later. So the objects of a call that failed may be freed both by its caller
	// and as garbage.
	CommitBlob(ctx context.Context, b Blob, extents []Extent, guard Precondition) (Blob, error)

	// DeleteBlob removes a blob and makes its content garbage. It returns the
	// id of that content, and true when there was a blob (expired or not).
	// guard may be nil.
	DeleteBlob(ctx context.Context, account, name string, guard Precondition) (ContentID, bool, error)

	// ListBlobs gives one page. Its cost grows with the entries it returns,
	// not with the names it skips. With a delimiter a group is listed only if
	// the group itself is greater than After.
	ListBlobs(ctx context.Context, q ListQuery) (Page, error)

	// Extents gives up to limit extents of a content, in order, beginning with
	// the one that holds position from; bodies of inline extents included.
	// An unknown content has none.
	Extents(ctx context.Context, content ContentID, from Position, limit int) ([]Extent, error)
}
