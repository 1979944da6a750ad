package meta

import (
	"context"

	"sluice/database/sqlstore/internal/engine"
	"sluice/internal/task"
)

// PurgeVersions implements metastore.Versions.
func (s *Metastore) PurgeVersions(ctx context.Context, limit int) (int, error) {
	return engine.ResultOf(ctx, s.in.WriteForDeletion, func(t tx) (int, error) {
		if waits, err := t.waits(task.Versions); err != nil || waits {
			return 0, err
		}
		ended, err := t.endLocks(limit)
		if err != nil {
			return 0, err
		}
		n, err := t.purgeBlobs(limit, t.isKept(), t.Now)
		return ended + n, err
	})
}

// isKept returns the condition of versions that are not current, as in the index blobs_kept.
func (t tx) isKept() string { return ` AND account >= ` + t.literal("~~") }

// CountDue implements metastore.Versions.
func (s *Metastore) CountDue(ctx context.Context, limit int) (versions, bytes int64, err error) {
	err = s.in.Read(ctx, func(t tx) error {
		_, err := t.Row(`SELECT COUNT(*), CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM
			(SELECT size FROM blobs WHERE expires IS NOT NULL AND expires <= $1`+t.isKept()+` ORDER BY expires LIMIT ($2 + 0)) due`,
			engine.Args{t.Now.UnixMicro(), int64(limit)}, (*engine.Integer)(&versions), (*engine.Integer)(&bytes))
		return err
	})
	return versions, bytes, err
}

// waits reports whether a task of task.Waiting must delete nothing: it is paused, or it may be when
// KeepTime keeps the time of a clock that was set. No run on another node can then be too late to
// notice.
func (t tx) waits(name task.Name) (bool, error) {
	set, err := t.ClockWasSet()
	if err != nil || set {
		return set, err
	}
	var one engine.Integer
	return t.Row(`SELECT 1 FROM tasks WHERE name = $1 AND paused IS NOT NULL`, engine.Args{[]byte(name)}, &one)
}
