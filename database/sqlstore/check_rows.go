package sqlstore

import (
	"context"

	"sluice/metastore"
)

// CheckRows compares the rows of blobs, extents, changes and sessions with their checksums, a page
// at a time and beside other users, and calls each for every row. known reports whether the row has
// a checksum, which rows of earlier versions lack. damage describes the damage, or is "", and
// content the row's content, zero for changes and a session. An error of each ends it.
func (s *Store) CheckRows(ctx context.Context, each func(content metastore.ContentID, known bool, damage string) error) error {
	if err := s.Metastore.CheckRows(ctx, each); err != nil {
		return err
	}
	return s.Ledger.CheckRows(ctx, func(known bool, damage string) error { return each(metastore.ContentID{}, known, damage) })
}
