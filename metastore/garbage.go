package metastore

import (
	"context"
	"time"
)

// GarbageContent is a content that waits to be deleted.
type GarbageContent struct {
	Content ContentID
	Since   time.Time // when it became garbage, by the store's clock
}

// Backlog is the amount of garbage that is due and has not been deleted.
type Backlog struct {
	Contents int           // MaxBacklog means that many or more
	Bytes    int64         // counts the oldest MaxBacklog/10 contents, and at most 1,000 extents of each
	Oldest   time.Duration // for how long the oldest has been due; 0 if there is none
}

// MaxBacklog is the greatest number of contents that a Backlog counts.
const MaxBacklog = 100_000

// Garbage holds the contents that wait until their objects are deleted from the byte store. A
// content becomes garbage in the transaction that removes the last reference to it, and is never
// referenced again. The caller must delete the objects before the rows that name them.
type Garbage interface {
	// GarbageContents returns up to limit contents that have been garbage for at least grace by the
	// store's clock, sorted by Since and id, starting after after; the zero value is the start. Its
	// cost grows with the result: contents that are not due cost nothing. A grace of 0 returns them
	// whatever the time is; otherwise it returns ErrClock while DeletionErr is not nil.
	GarbageContents(ctx context.Context, grace time.Duration, after GarbageContent, limit int) ([]GarbageContent, error)

	// GarbageBacklog returns how much garbage is due, that is, has been garbage for at least grace
	// by the store's clock. It counts up to MaxBacklog, and its cost does not grow with garbage
	// that is not due.
	GarbageBacklog(ctx context.Context, grace time.Duration) (Backlog, error)

	// GarbageObjects returns the object names of each content that is garbage and small. A
	// content is small if it has at most MaxSmallExtents extents, inline ones included. If it has
	// no objects, its list is empty. Contents that are live, unknown or not small are not in the
	// map; garbage that is not small is removed with Extents, DropExtents and DropContent. A call
	// takes at most MaxContents.
	GarbageObjects(ctx context.Context, contents []ContentID) (map[ContentID][]string, error)

	// DropContents removes each listed content that is garbage and small, with all its extents.
	// The caller must first delete all objects that GarbageObjects returned for it. Other contents
	// are unchanged. A call takes at most MaxContents. Repeated, it has no effect.
	DropContents(ctx context.Context, contents []ContentID) error

	// DropExtents removes a garbage content's extents at these positions. The caller must first
	// delete their objects. It returns ErrNotFound, and removes nothing, if the content is not
	// garbage. Repeated, it has no effect.
	DropExtents(ctx context.Context, content ContentID, extents []Position) error

	// DropContent removes a garbage content that has no extents left. It returns ErrExists
	// if there are some. Repeated, it has no effect.
	DropContent(ctx context.Context, content ContentID) error

	// HoldGarbage holds the contents that become garbage during the next period, so that a backup
	// can read them, or extends the hold of this id. It returns the time from which on garbage is
	// held, which is a minute earlier than the hold began, because a transaction that ends later
	// may have begun earlier. If it differs from an earlier call's result, that hold has ended
	// meanwhile, and this one is new.
	HoldGarbage(ctx context.Context, id string, period time.Duration) (since time.Time, err error)

	// ReleaseGarbage ends the hold of this id. It has no effect if there is none.
	ReleaseGarbage(ctx context.Context, id string) error

	// GarbageHeld returns the time from which on garbage is held, or false if there is no hold. The
	// caller should not delete contents that became garbage since then, and may do so if space is
	// short. It must call GarbageHeld after it has read which contents are garbage.
	GarbageHeld(ctx context.Context) (since time.Time, held bool, err error)

	// Unreferenced returns the keys, which are object names, to which no extent refers, neither in
	// live contents nor in garbage. A call takes at most 1,000 keys. Callers use its result to
	// delete objects because of their age, so it returns ErrClock while DeletionErr is not nil.
	Unreferenced(ctx context.Context, keys []string) ([]string, error)
}
