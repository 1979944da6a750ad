package metastore

import (
	"context"
	"time"
)

// Scrub is how far the scrub is: first it checks the objects, by name, then the inline extents, by
// id. The zero value is before the first round.
type Scrub struct {
	Revision int64     // grows with each SaveScrub
	Round    int64     // rounds that have begun
	Began    time.Time // the newest round; zero: none has
	Running  bool      // the round has not ended
	Object   string    // objects up to this name were checked in the round
	Bodies   bool      // all objects were, and inline extents up to Inline
	Inline   ExtentID
	Extents  int64     // that were checked in the round
	Bytes    int64     // that they have
	Finished time.Time // when the last complete round ended; zero: none has
}

// Scrubs lists the extents that the scrub checks, and holds how far it is.
type Scrubs interface {
	// Objects returns up to limit extents that are objects, sorted by object name, beginning after
	// the name after. Garbage is among them.
	Objects(ctx context.Context, after string, limit int) ([]StoredExtent, error)

	// StoredExtents returns up to limit extents, sorted by id, beginning after an id; those that
	// are inline with their bodies, or with nil if the body is missing. Garbage is among them.
	StoredExtents(ctx context.Context, after ExtentID, limit int) ([]StoredExtent, error)

	// StoredSize returns the number of all extents, and their bytes. It reads all their rows.
	StoredSize(ctx context.Context) (extents, bytes int64, err error)

	// Scrub returns how far the scrub is.
	Scrub(ctx context.Context) (Scrub, error)

	// SaveScrub replaces the Scrub with the Revision of s by s, with the next Revision, which it
	// returns. It returns ErrNotFound if another call has replaced it.
	SaveScrub(ctx context.Context, s Scrub) (revision int64, err error)
}
