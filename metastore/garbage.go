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

// Backlog is how much garbage is due and still there.
type Backlog struct {
	Contents int           // MaxBacklog stands for as many or more
	Oldest   time.Duration // since when the first of them is due; 0 when there is none
}

// MaxBacklog is the greatest number of contents that a Backlog counts.
const MaxBacklog = 100_000

// Garbage is what waits to be deleted from the byte store. A content becomes
// garbage in the same transaction that takes the last reference to it away, and
// is never referenced again.
type Garbage interface {
	// GarbageContents returns up to limit contents that have been garbage for at
	// least grace, by the store's own clock, beginning behind after (zero: at the
	// first). They are in the order of Since, then of their ids. Its cost grows
	// with what it returns: a content that is not due costs nothing. Without a
	// grace it returns them whatever the time is; with one it is ErrClock while
	// DeletionErr is not nil.
	GarbageContents(ctx context.Context, grace time.Duration, after GarbageContent, limit int) ([]GarbageContent, error)

	// GarbageBacklog reports how much garbage is due, that is, has been garbage
	// for at least grace by the store's own clock. Its cost does not grow with
	// what is not due, and it counts up to MaxBacklog.
	GarbageBacklog(ctx context.Context, grace time.Duration) (Backlog, error)

	// GarbageObjects gives the keys of the objects of each of the contents that
	// is garbage and small (at most MaxSmallExtents extents, inline ones
	// included): a list without entries when it has no objects. Contents that
	// are live, unknown or not small are not in the map; what is not small is
	// freed by Extents, DropExtents and DropContent. At most MaxContents a call.
	GarbageObjects(ctx context.Context, contents []ContentID) (map[ContentID][]string, error)

	// DropContents forgets the contents that are garbage and small, with all
	// their extents, after all objects that GarbageObjects gave for them were
	// deleted. The others are left as they are. At most MaxContents a call.
	// Repeated: nil.
	DropContents(ctx context.Context, contents []ContentID) error

	// DropExtents forgets these extents (by Part and Offset) of a garbage
	// content, after their objects were deleted. Extents of a content that is
	// not garbage are ErrNotFound and stay. Repeated: nil.
	DropExtents(ctx context.Context, content ContentID, extents []Position) error

	// DropContent forgets a garbage content that has no extents left.
	// ErrExists while it has some. Repeated: nil.
	DropContent(ctx context.Context, content ContentID) error
}
