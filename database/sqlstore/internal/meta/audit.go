package meta

import (
	"fmt"

	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// AuditAccounts reports where an account's counts differ from its blobs. It compares them in one
// statement, so that the engine sorts rows on disk if they exceed its memory.
func AuditAccounts(t *engine.Tx, report func(format string, args ...any)) error {
	var d accountDifference
	return t.Each(accountDifferences+` ORDER BY account`, nil, d.fields(), func() error {
		report("account %q: %d blobs of %d bytes are counted, but there are %d of %d", d.account, d.countedBlobs, d.countedSize, d.blobs, d.size)
		return nil
	})
}

// accountDifference is an account that has other counts than its blobs.
type accountDifference struct {
	account                                string
	blobs, size, countedBlobs, countedSize int64
}

func (d *accountDifference) fields() engine.Args {
	return engine.Args{&d.account, (*engine.Integer)(&d.blobs), (*engine.Integer)(&d.size), (*engine.Integer)(&d.countedBlobs), (*engine.Integer)(&d.countedSize)}
}

const accountDifferences = `SELECT account, CAST(SUM(blobs) AS BIGINT) AS blobs, CAST(SUM(size) AS BIGINT) AS size,
		CAST(SUM(counted) AS BIGINT) AS counted, CAST(SUM(bytes) AS BIGINT) AS bytes
	FROM (SELECT account, COUNT(*) AS blobs, SUM(size) AS size, 0 AS counted, 0 AS bytes FROM blobs GROUP BY account
		UNION ALL SELECT account, 0, 0, blobs, bytes FROM account_sums
		UNION ALL SELECT account, 0, 0, blobs, bytes FROM account_deltas) c
	GROUP BY account HAVING SUM(blobs) <> SUM(counted) OR SUM(size) <> SUM(bytes)`

// AuditShares reports where a content's references differ from the blobs that have it, and contents
// that blobs have although they are garbage. It compares them in one statement each, so that the
// engine sorts rows on disk if they exceed its memory.
func AuditShares(t *engine.Tx, report func(format string, args ...any)) error {
	var d shareDifference
	err := t.Each(shareDifferences+` ORDER BY content`, nil, d.fields(), func() error {
		report("content %v: %d references are counted, but there are %d blobs, of them %d marked as sharing it", d.content, d.refs, d.blobs, d.flagged)
		return nil
	})
	if err != nil {
		return err
	}
	var content metastore.ContentID
	return t.Each(`SELECT g.content FROM garbage g JOIN blobs b ON b.content = g.content GROUP BY g.content ORDER BY g.content`, nil,
		engine.Args{(*engine.ContentID)(&content)}, func() error {
			report("content %v is garbage, but a blob has it", content)
			return nil
		})
}

// shareDifference is a content that has other references than blobs.
type shareDifference struct {
	content              metastore.ContentID
	blobs, flagged, refs int64
}

func (d *shareDifference) fields() engine.Args {
	return engine.Args{(*engine.ContentID)(&d.content), (*engine.Integer)(&d.blobs), (*engine.Integer)(&d.flagged), (*engine.Integer)(&d.refs)}
}

const shareDifferences = `SELECT content, CAST(SUM(blobs) AS BIGINT) AS blobs, CAST(SUM(flagged) AS BIGINT) AS flagged, CAST(SUM(refs) AS BIGINT) AS refs
	FROM (SELECT content, 1 AS blobs, shared AS flagged, 0 AS refs FROM blobs UNION ALL SELECT content, 0, 0, refs FROM shares) c
	GROUP BY content HAVING SUM(flagged) <> SUM(refs) OR SUM(blobs) <> SUM(flagged) AND SUM(blobs) + SUM(flagged) <> 1`

// AuditParts reports where an uneven content's parts do not follow each other, do not have its
// extents' bytes, or are not the blob's, and parts without such a blob. It compares them in one
// statement each, so that the engine sorts rows on disk if they exceed its memory.
func AuditParts(t *engine.Tx, report func(format string, args ...any)) error {
	var content metastore.ContentID
	var part, have, want int64
	for _, check := range []struct{ query, finding string }{
		{partsInOrder, "content %v: part %d begins at byte %d, and those before it end at byte %d"},
		{partsOfExtents, "content %v: part %d has %d bytes, and its extents have %d"},
		{partsOfBlobs, "content %v: from part %d on its parts have %d bytes, and the blob has %d"},
		{partsOfNothing, "content %v: no blob has its uneven parts %d to %d, of %d bytes, and it is not garbage"},
	} {
		err := t.Each(check.query, nil, engine.Args{(*engine.ContentID)(&content), (*engine.Integer)(&part), (*engine.Integer)(&have), (*engine.Integer)(&want)}, func() error {
			report(check.finding, content, part, have, want)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	partsInOrder = `SELECT content, part, start, before FROM
		(SELECT content, part, start, CAST(SUM(size) OVER (PARTITION BY content ORDER BY part) AS BIGINT) - size AS before FROM starts) s
		WHERE start <> before ORDER BY content, part`

	// Extents of garbage may have been dropped.
	partsOfExtents = `SELECT content, part, size, stored FROM
		(SELECT s.content, s.part, s.size,
				CAST(COALESCE((SELECT SUM(e.size) FROM extents e WHERE e.content = s.content AND e.part = s.part), 0) AS BIGINT) AS stored
			FROM starts s WHERE NOT EXISTS (SELECT 1 FROM garbage g WHERE g.content = s.content)) s
		WHERE size <> stored ORDER BY content, part`
)

var (
	partsOfBlobs = fmt.Sprintf(`SELECT b.content, COALESCE(s.part, 0), COALESCE(s.size, 0), b.size FROM blobs b
		LEFT JOIN (SELECT content, MIN(part) AS part, CAST(SUM(size) AS BIGINT) AS size FROM starts GROUP BY content) s ON s.content = b.content
		WHERE b.part_size = %d AND (s.size IS NULL OR s.size <> b.size) ORDER BY b.content`, int64(metastore.UnevenParts))

	partsOfNothing = fmt.Sprintf(`SELECT s.content, MIN(s.part), MAX(s.part), CAST(SUM(s.size) AS BIGINT) FROM starts s
		WHERE NOT EXISTS (SELECT 1 FROM garbage g WHERE g.content = s.content)
			AND s.content NOT IN (SELECT content FROM blobs WHERE part_size = %d) GROUP BY s.content ORDER BY s.content`, int64(metastore.UnevenParts))
)
