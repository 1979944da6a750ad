package blob

import (
	"context"

	"sluice/integrity"
)

// Metadata is what the package needs of an instance's database: the metadata of blobs, the clock
// that judges their age, and the properties by which the stores of an instance recognize each
// other.
type Metadata interface {
	integrity.Metadata

	// Purge removes up to about limit rows of each kind whose time is over, and returns how many it
	// handled; see database.Maintenance.
	Purge(ctx context.Context, limit int) (int, error)
}
