package meta

import (
	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// AuditAccounts reports where an account's counts differ from its blobs. It compares them in one
// statement, so that the engine sorts what does not fit in memory.
func AuditAccounts(t *engine.Tx, report func(format string, args ...any)) error {
	var account string
	var blobs, size, countedBlobs, countedSize int64
	return t.Each(`SELECT c.account, CAST(SUM(c.blobs) AS BIGINT), CAST(SUM(c.size) AS BIGINT), CAST(SUM(c.counted) AS BIGINT), CAST(SUM(c.bytes) AS BIGINT)
		FROM (SELECT account, COUNT(*) AS blobs, SUM(size) AS size, 0 AS counted, 0 AS bytes FROM blobs GROUP BY account
			UNION ALL SELECT account, 0, 0, blobs, bytes FROM account_sums
			UNION ALL SELECT account, 0, 0, blobs, bytes FROM account_deltas) c
		GROUP BY c.account HAVING SUM(c.blobs) <> SUM(c.counted) OR SUM(c.size) <> SUM(c.bytes) ORDER BY c.account`, nil,
		engine.Args{&account, (*engine.Integer)(&blobs), (*engine.Integer)(&size), (*engine.Integer)(&countedBlobs), (*engine.Integer)(&countedSize)},
		func() error {
			report("account %q: %d blobs of %d bytes are counted, but there are %d of %d", account, countedBlobs, countedSize, blobs, size)
			return nil
		})
}

// AuditShares reports where a content's references differ from the blobs that have it, and contents
// that blobs have although they are garbage. It compares them in one statement each, so that the
// engine sorts what does not fit in memory.
func AuditShares(t *engine.Tx, report func(format string, args ...any)) error {
	var content metastore.ContentID
	var blobs, flagged, refs int64
	err := t.Each(`SELECT c.content, CAST(SUM(c.blobs) AS BIGINT), CAST(SUM(c.flagged) AS BIGINT), CAST(SUM(c.refs) AS BIGINT)
		FROM (SELECT content, 1 AS blobs, `+shared+` AS flagged, 0 AS refs FROM blobs UNION ALL SELECT content, 0, 0, refs FROM shares) c
		GROUP BY c.content HAVING SUM(c.flagged) <> SUM(c.refs) OR SUM(c.blobs) <> SUM(c.flagged) AND SUM(c.blobs) + SUM(c.flagged) <> 1
		ORDER BY c.content`, nil,
		engine.Args{(*engine.ContentID)(&content), (*engine.Integer)(&blobs), (*engine.Integer)(&flagged), (*engine.Integer)(&refs)},
		func() error {
			report("content %v: %d references are counted, but there are %d blobs, of them %d marked as sharing it", content, refs, blobs, flagged)
			return nil
		})
	if err != nil {
		return err
	}
	return t.Each(`SELECT g.content FROM garbage g JOIN blobs b ON b.content = g.content GROUP BY g.content ORDER BY g.content`, nil,
		engine.Args{(*engine.ContentID)(&content)}, func() error {
			report("content %v is garbage, but a blob has it", content)
			return nil
		})
}
