package meta

import "sluice/database/sqlstore/internal/engine"

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
