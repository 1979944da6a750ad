package metastore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"time"

	"sluice/access/actions"
	"sluice/database"
)

// ContentID identifies an immutable content: the bytes of one blob version, or of one upload. Ids
// ascend with their creation time.
type ContentID [16]byte

// NewContentID returns a new id: 48 bits of milliseconds since 1970, then 80 random bits.
func NewContentID(now time.Time) ContentID {
	var id ContentID
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16)
	rand.Read(id[6:])
	return id
}

// String returns the id as 32 hexadecimal digits.
func (id ContentID) String() string { return hex.EncodeToString(id[:]) }

// Blob is a blob's metadata. Account and Name are stored and ordered as bytes.
type Blob struct {
	Account     string
	Name        string
	Content     ContentID
	Size        int64  // bytes
	CRC64       uint64 // the content's CRC-64/NVME; with Size it makes the ETag
	PartSize    int64  // size of every part except the last; 0: one part, number 0; or UnevenParts
	SHA256      []byte // the content's; nil if it is not known
	ContentType string // as the writer stated it; may be empty
	Metadata    string // the blob's other headers by its writer: any bytes, returned unchanged; may be empty
	Owner       string // the owner who is charged for the blob, see Usage; empty: none
	// Modified is when the store committed this version, but never earlier than Modified of the
	// version that it replaced, or that was deleted shortly before. The store sets it.
	Modified time.Time
	// SharedSecond reports whether an earlier version under this name may have been modified in the
	// same second as this one, or later. The store sets it on commit.
	SharedSecond bool
	Expires      time.Time // zero: never

	// By is who wrote it, as the caller names it, or who removed the blob if it is a Mark. It and
	// Versioned are stored only if the account keeps versions, and the store sets all below.
	By        string
	Versioned bool      // it was committed while the account's state was KeepOn
	Mark      bool      // it marks that the name's blob was removed
	Since     time.Time // when it ceased to be current; zero: it is current
	Until     time.Time // until when it is kept if it is not current; zero: without limit
	Again     time.Time // since when it is current again, as newer versions were removed; zero: it always was

	// Lock is stored only if the account has Keeping.Locks. A blob that is committed gets the
	// account's retention unless it states one. A commit returns ErrNoLocks or
	// ErrLock as SetLock does.
	Lock Lock
}

// UnevenParts is a blob's PartSize if its parts have any sizes, and begin where PartRanges has
// them. It is greater than any content, and its product with any part's number is an int64: earlier
// versions multiply the two, find a gap after part 0, and never read other bytes than they look
// for.
const UnevenParts = 1 << 46

// PartRange is where a part is in its content.
type PartRange struct {
	Index int   // the number that the writer gave it
	Start int64 // the first byte's offset in the content
	Size  int64 // bytes
	// Checksum is the part's, see Part.
	Checksum string
}

// Extent is a run of bytes in a content. It is stored as one object or, if it is small, inline in
// the metadata. A content's extents are ordered by Part, then Offset, and cover each part without
// gap or overlap.
type Extent struct {
	Part   int      // the part's number, from 0
	Offset int64    // the first byte's, within the part
	Start  int64    // the part's first byte's, within the content, if ExtentsAt returns it; otherwise 0
	Size   int64    // bytes, 1 to MaxExtentSize
	Blocks []uint32 // CRC-32C of each MiB, counted from the extent's start
	Object string   // the object's name in the byte store; empty if inline
	Body   []byte   // the bytes themselves if inline, otherwise nil
	// Created is when the object's name was created. The methods that store extents compare its age
	// with MaxExtentAge and do not store it. They ignore it for an inline extent.
	Created time.Time
}

// Position is a byte position in a content.
type Position struct {
	Part   int
	Offset int64 // within the part
}

// Precondition decides inside a transaction whether a write may proceed. The store calls it with
// the blob that the write would replace or delete, or nil if there is none or it has expired. If it
// returns an error, the store rolls the transaction back and returns the error as it is. A
// Precondition must have no side effects and may be called several times.
//
// A commit, a completion, a copy and a move also call it with VersionGoes if they remove a version
// that is not current for good, or if the blob that they store will do so by its expiry: see
// Keeping.Most and KeepOff. Marks do not count.
type Precondition func(current *Blob) error

// VersionGoes is a Precondition's argument for a version that is not current.
var VersionGoes = &Blob{}

// BlobName is a blob's account and name.
type BlobName struct{ Account, Name string }

// VersionOf returns a blob's version.
func VersionOf(b *Blob) (v Version) {
	binary.BigEndian.PutUint64(v[:8], uint64(b.Modified.UnixMicro()))
	copy(v[8:], b.Content[8:])
	return v
}

// VersionName names a blob's version.
type VersionName struct {
	BlobName
	Version Version
	Null    bool // the version that is not Versioned, whatever Version is
}

// Is reports whether v names b, a version with its name.
func (v VersionName) Is(b *Blob) bool {
	if v.Null {
		return !b.Versioned
	}
	return v.Version == VersionOf(b)
}

// Copy describes a blob's copy.
type Copy struct {
	From         BlobName
	FromVersion  *VersionName // is copied instead of From if it is not nil
	To           Blob         // only the members that CopyBlob names are used
	Restated     bool         // whether the copy has the ContentType and the Metadata of To
	KeepDate     bool         // whether a blob that is copied to itself keeps Modified and SharedSecond
	Restores     bool         // whether nothing changes if To has the copy's bytes and members already, except By
	Source       Precondition // is called with the source; may be nil
	Precondition Precondition // is called with the blob that To replaces; may be nil
	Act          *actions.Act // is recorded with the copy; may be nil
}

// Move describes a blob's move.
type Move struct {
	From         BlobName
	To           BlobName
	Owner        string       // the owner who is charged for the blob from then on, see Usage; empty: none
	By           string       // who moves it, see Blob
	Lock         Lock         // the moved blob's, see Blob
	Source       Precondition // is called with the source; may be nil
	Precondition Precondition // is called with the blob that To replaces; may be nil
	// Made is called with the blob under To if there is no source, and reports whether an earlier
	// call has made it. It may be nil, and has a Precondition's duties.
	Made func(current *Blob) bool
	// Once makes the move idempotent, see database.Idempotency; may be nil. It records the result
	// without ContentType and Metadata.
	Once *database.Idempotency
	// NoRecord is why nothing may be recorded for Once; nil: it may. Unless the result was recorded
	// before, MoveBlob returns it and changes nothing.
	NoRecord error
}

// ListQuery selects a page from an account's blobs.
type ListQuery struct {
	Account   string
	Prefix    string // only names with this prefix are listed
	Delimiter string // if not empty, names that contain it after the prefix are grouped
	After     string // only names and groups greater than this are listed
	Limit     int    // greatest number of entries, names and groups together; at least 1
	Bytes     int64  // the page's greatest size, see database.EntryCharge; 0: no bound
	Metadata  bool   // whether the page's blobs have their Metadata; otherwise it is empty
}

// Page is a listing's page. Blobs and Prefixes are each sorted in byte order.
type Page struct {
	Blobs    []Blob
	Prefixes []string // groups: the common prefix up to and including the delimiter
	Next     string   // After for the next page; empty on the last page
}

// Blobs stores the named contents. An expired blob is not listed, and a Precondition does not
// see it.
type Blobs interface {
	// Blob returns a blob. It returns ErrExpired for ExpiredBlobGrace after the blob's
	// expiry, and ErrNotFound later or if there is none.
	Blob(ctx context.Context, account, name string) (Blob, error)

	// OpenBlob returns Blob's result, and the extent that has the content's first byte, with its
	// body if it is inline; an empty blob has none, nor has one that begins with another part than
	// part 0. The caller must not modify memory to which the results refer: an implementation may
	// return them again.
	OpenBlob(ctx context.Context, account, name string) (Blob, []Extent, error)

	// CommitBlob makes b visible with these extents as its content, and returns it as stored. If
	// there is a blob under that name, it is replaced and its content becomes garbage. The extents
	// must be all extents in part 0, in order; an empty blob has none. b.Content must be new,
	// b.PartSize must be 0, and b.Modified and b.SharedSecond are ignored. The precondition may be
	// nil.
	//
	// It returns ErrStaleExtent if an extent is too old, ErrExpired if b.Expires has passed
	// (without calling the precondition), or the precondition's error.
	//
	// CommitBlob may store a long list's extents in transactions before the one that makes b
	// visible. Until then their content is neither live nor garbage. It becomes garbage if the call
	// fails, or, if the process crashes, when Purge is called four times MaxExtentAge later. So
	// after an error both the caller and the background task that frees garbage may delete the
	// objects.
	CommitBlob(ctx context.Context, b Blob, extents []Extent, precondition Precondition) (Blob, error)

	// CopyBlob makes the blob c.From's content visible as the blob c.To, and returns that as
	// stored. Of c.To it takes Account, Name, Owner, By and Expires, and with c.Restated
	// also ContentType and Metadata. Everything else is the source's. A blob that c.To replaces is
	// treated as CommitBlob does. If c.To is c.From, only these members change. If FromVersion is a
	// version of c.To, and with KeepDate, c.Restated changes the version itself.
	//
	// Both blobs are read and written in one transaction. No extents with objects are copied: from
	// then on both blobs have the same content, which becomes garbage with the last blob that has
	// it. CopyBlob's cost does not grow with the content's size. A content that is empty or has a
	// single inline extent is copied, unless c.To is c.From.
	//
	// It returns ErrExpired if c.To.Expires has passed, ErrNoSource if there is no source (both
	// without calling the preconditions), or a precondition's error, the source's first.
	CopyBlob(ctx context.Context, c Copy) (Blob, error)

	// MoveBlob moves the blob at m.From to m.To, and makes m.Owner its owner. It returns the blob
	// as stored, with the dates of a blob that is committed now. A blob at m.To is replaced as by
	// CommitBlob, in the same transaction; after it there is no blob at m.From. The cost does not
	// grow with the content's size. If m.To is m.From, nothing changes.
	//
	// It returns ErrNoSource if there is no source, or a precondition's error, the source's first.
	// If there is no source, but m.Made reports that the blob at m.To is the result, MoveBlob
	// returns that.
	MoveBlob(ctx context.Context, m Move) (Blob, error)

	// ListBlobs returns one page. Its cost, and the memory that it uses, grow with the entries that
	// it returns, not with the names it skips. Only q.Bytes can make a page shorter than q.Limit
	// that still has a Next. With a delimiter, a group is listed only if the group itself is
	// greater than After.
	ListBlobs(ctx context.Context, q ListQuery) (Page, error)

	// Extents returns up to limit of a content's extents, in order, starting with the one that
	// contains the position from. It includes the bodies of inline extents. An unknown content has
	// no extents.
	Extents(ctx context.Context, content ContentID, from Position, limit int) ([]Extent, error)

	// ExtentsAt is Extents for a blob with UnevenParts: it starts with the extent that contains the
	// content's byte at offset, and sets each extent's Start. A content that has even parts or is
	// unknown has none.
	ExtentsAt(ctx context.Context, content ContentID, offset int64, limit int) ([]Extent, error)

	// PartRanges returns up to limit parts if the content is uneven: those with an Index greater
	// than after, sorted by Index, and how many parts there are in all. To start with the first
	// part, pass -1 as after. A content that has even parts or is unknown has none.
	PartRanges(ctx context.Context, content ContentID, after, limit int) (list []PartRange, total int, err error)
}
