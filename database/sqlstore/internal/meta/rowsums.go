package meta

import (
	"fmt"

	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// blobSum returns the checksum of a blob's row.
func blobSum(b *metastore.Blob) int64 {
	sum := engine.BeginRowSum().Text(b.Account).Text(b.Name).Bytes(b.Content[:]).Int(b.Size).Int(int64(b.CRC64)).Int(b.PartSize)
	if l := b.Lock; l != (metastore.Lock{}) {
		sum = sum.Text(string(l.Mode)).Int(l.Until.UnixMicro()).Text(fmt.Sprint(l.Hold))
	}
	return sum.Sum()
}

// extentSum returns the checksum of an extent's row.
func extentSum(content *metastore.ContentID, e *metastore.Extent) int64 {
	return engine.BeginRowSum().Bytes(content[:]).Int(int64(e.Part)).Int(e.Offset).Int(e.Size).Uints(e.Blocks).Text(e.Object).Sum()
}

// checkBlob returns database.ErrDamagedRow unless a blob's row has its checksum, or none.
func checkBlob(b *metastore.Blob, stored engine.StoredSum) error {
	if stored.Known() && stored.Differs(blobSum(b)) {
		return engine.DamagedRow("the row of blob %q", b.Path())
	}
	return nil
}

// checkExtentRow is checkBlob for an extent.
func checkExtentRow(content *metastore.ContentID, e *metastore.Extent, stored engine.StoredSum) error {
	if stored.Known() && stored.Differs(extentSum(content, e)) {
		return engine.DamagedRow("the row of an extent, part %d at byte %d of content %v", e.Part, e.Offset, *content)
	}
	return nil
}
