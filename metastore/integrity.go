package metastore

import (
	"context"
	"time"
)

// ExtentID identifies an extent by its content and its place there. Ids are ordered by Content,
// Part and Offset.
type ExtentID struct {
	Content ContentID
	Position
}

// StoredExtent is an extent with its content.
type StoredExtent struct {
	Extent // without Start and Created

	Content ContentID
	Garbage bool // its bytes may be deleted before its row
}

// ID returns the extent's id.
func (e *StoredExtent) ID() ExtentID {
	return ExtentID{e.Content, Position{Part: e.Part, Offset: e.Offset}}
}

// Damage names an extent's stored bytes that are damaged or missing.
type Damage struct {
	ExtentID

	Size   int64  // the extent's bytes
	Object string // the extent's; empty: it is inline
	Bad    uint64 // bit i is set if block i is damaged
	Bytes  int64  // in these blocks
	// Since is when the extent's first damage was recorded. The store sets it.
	Since  time.Time
	Reason string // the last finding, for operators
}

// DamageTotals are the sums of Damages.
type DamageTotals struct {
	Contents, Extents, Bytes int64
	Since                    time.Time // when the oldest arose; zero: none
}

// Integrity holds which stored bytes are known to be damaged.
type Integrity interface {
	// RecordDamage records damage, adding its blocks to the extent's record. It reports
	// whether it did: it does not if the extent has another object now, or its content is garbage
	// or gone.
	RecordDamage(ctx context.Context, damage Damage) (bool, error)

	// ForgetDamage removes an extent's record, if it is about the object of damage.
	ForgetDamage(ctx context.Context, damage Damage) error

	// Damages returns the records of up to limit extents, sorted by id, beginning after an id.
	// Extents that have another object by now are not among them, nor are garbage's.
	Damages(ctx context.Context, after ExtentID, limit int) ([]Damage, error)

	// DamagesOf returns one content's Damages.
	DamagesOf(ctx context.Context, content ContentID) ([]Damage, error)

	// DamageTotals returns the sums of Damages.
	DamageTotals(ctx context.Context) (DamageTotals, error)

	// PruneDamage removes up to limit records that Damages does not list, and returns how many.
	PruneDamage(ctx context.Context, limit int) (int, error)

	// BlobsWith returns the names of all blobs that have one of these contents, sorted, with each
	// one's content; also the versions that are not current, the newest first. A call takes at most
	// MaxContents, and reads all blobs.
	BlobsWith(ctx context.Context, contents []ContentID) ([]BlobContent, error)

	// HealExtent gives a damaged extent the object fresh.Object, which must have the bytes that the
	// damaged one should have. In the same transaction the old object becomes garbage, as the only
	// extent in the new content retired, without an owner, and the record is removed. Of fresh only
	// Object and Created are used.
	//
	// It returns ErrNotFound, and changes nothing, if the extent is inline or has another object
	// than damage.Object, or its content is garbage or gone, so that one of two concurrent calls
	// succeeds. It returns ErrStaleExtent if fresh is too old.
	HealExtent(ctx context.Context, damage Damage, fresh Extent, retired ContentID) error

	// HealBody replaces a damaged inline extent's body, and removes the damage, in one transaction.
	// damaged is the body that was read, or nil if there was none.
	//
	// It returns ErrNotFound, and changes nothing, in each of these cases: the extent is not
	// inline, its body differs from damaged, as after another call, or its content is garbage or
	// gone. So one of two concurrent calls succeeds.
	HealBody(ctx context.Context, damage Damage, damaged, body []byte) error
}

// BlobContent is a blob's name and content.
type BlobContent struct {
	BlobName
	Version Version // that has it; zero: the current one
	Content ContentID
}
