package metastore

import (
	"context"
	"time"
)

// TreeRow is a row in a content's tree; package commit describes them.
type TreeRow struct {
	Level  int
	Index  int64
	Hashes []byte
}

// TreeInRows is the Tree of a blob if its content has rows.
var TreeInRows = []byte{0}

// ContentRoot is a content with its Blob.Root and Blob.Tree.
type ContentRoot struct {
	Content    ContentID
	Root, Tree []byte
}

// TreelessTotals are how many contents wait for their trees.
type TreelessTotals struct {
	Contents int       // MaxBacklog means that many or more
	Oldest   time.Time // the creation of the first one's id; zero: there is none
}

// Roots stores contents' Merkle roots and trees. Copies, moves and versions of a blob have them
// with its content, and whatever removes the content removes its rows.
type Roots interface {
	// Treeless returns up to limit contents of blobs without a Tree, sorted, beginning after an id.
	// Contents that are empty or have recorded damage are left out. The cost does not grow with
	// blobs that have a Tree.
	Treeless(ctx context.Context, after ContentID, limit int) ([]ContentID, error)

	// OpenTreeless returns a blob without a Tree that has this content, as OpenBlob does, or
	// ErrNotFound. It may be a version that is not current.
	OpenTreeless(ctx context.Context, content ContentID) (Blob, []Extent, error)

	// TreelessTotals counts these contents, up to MaxBacklog.
	TreelessTotals(ctx context.Context) (TreelessTotals, error)

	// AddTreeRow stores a row in a content's tree, over an earlier one. It returns ErrNotFound, and
	// stores nothing, unless a blob without a Tree has the content.
	AddTreeRow(ctx context.Context, content ContentID, row TreeRow) error

	// TreeRow returns the hashes of a row, or ErrNotFound.
	TreeRow(ctx context.Context, content ContentID, level int, index int64) ([]byte, error)

	// SetRoots sets the Root and the Tree of all blobs without a Tree that have one of these
	// contents. A blob that another transaction is changing may be left for a later call.
	SetRoots(ctx context.Context, list []ContentRoot) error
}
