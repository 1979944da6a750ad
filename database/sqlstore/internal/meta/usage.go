package meta

import (
	"context"

	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/usage"
	"sluice/metastore"
)

// blobUsage returns a blob's usage.
func blobUsage(b metastore.Blob) usage.Delta {
	return usage.Delta{Owner: b.Owner, Used: metastore.Used{Bytes: b.Size, Objects: 1, Names: int64(len(b.Name) + len(b.Metadata))}}
}

// blobGarbage returns the usage that a blob's content has as garbage.
func blobGarbage(b metastore.Blob) usage.Delta { return garbageUsage(b.Owner, b.Size, 1) }

// garbageUsage returns a garbage content's usage.
func garbageUsage(owner string, bytes, parts int64) usage.Delta {
	return usage.Delta{Owner: owner, Used: metastore.Used{Retained: metastore.GarbageCharge(bytes, parts)}}
}

// uploadGarbage returns the usage that an open upload's content has after an abort.
func uploadGarbage(u metastore.Upload) usage.Delta { return garbageUsage(u.Owner, u.Bytes, u.Parts) }

// outcomeUsage returns the usage of an upload's recorded outcome.
func outcomeUsage(u metastore.Upload) usage.Delta {
	return usage.Delta{Owner: u.Owner, Used: metastore.Used{Retained: metastore.OutcomeCharge(u.Name)}}
}

// uploadUsage returns an open upload's usage.
func uploadUsage(u metastore.Upload) usage.Delta {
	return usage.Delta{Owner: u.Owner, Used: metastore.Used{Bytes: u.Bytes, Uploads: 1, Objects: u.Parts, Names: int64(len(u.Name) + len(u.Metadata))}}
}

// Usage implements metastore.Usage. Its cost grows with the number of rows that were inserted
// since the last Purge.
func (s *Metastore) Usage(ctx context.Context, owner string) (metastore.Used, error) {
	var used metastore.Used
	err := s.in.Read(ctx, func(t tx) error {
		_, err := t.Row(`SELECT CAST(COALESCE(SUM(u.bytes), 0) AS BIGINT), CAST(COALESCE(SUM(u.uploads), 0) AS BIGINT),
			CAST(COALESCE(SUM(u.objects), 0) AS BIGINT), CAST(COALESCE(SUM(u.names), 0) AS BIGINT), CAST(COALESCE(SUM(u.channels), 0) AS BIGINT),
			CAST(COALESCE(SUM(u.retained), 0) AS BIGINT)
			FROM `+usage.OwnRows, engine.Args{[]byte(owner)}, usage.Fields(&used)...)
		return err
	})
	return used, err
}
