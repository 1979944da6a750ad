package meta

import (
	"fmt"

	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/usage"
	"sluice/metastore"
)

// AuditUsage reports where an owner's usage differs from its rows, in one statement.
func AuditUsage(t *engine.Tx, report func(format string, args ...any)) error {
	var d usage.Delta
	return t.Each(usageDifferences+` ORDER BY owner`, nil, append(engine.Args{&d.Owner}, usage.Fields(&d.Used)...), func() error {
		report("owner %q: counted beyond what is stored: %s", d.Owner, usageText(d.Used))
		return nil
	})
}

func usageText(u metastore.Used) string {
	return fmt.Sprintf("%d bytes, %d uploads, %d objects, %d bytes of names, %d channels, %d bytes retained", u.Bytes, u.Uploads, u.Objects, u.Names, u.Channels, u.Retained)
}

// usageDifferences are the owners that have another usage than their rows, with the difference.
const usageDifferences = `SELECT owner, CAST(SUM(bytes) AS BIGINT) AS bytes, CAST(SUM(uploads) AS BIGINT) AS uploads, CAST(SUM(objects) AS BIGINT) AS objects,
		CAST(SUM(names) AS BIGINT) AS names, CAST(SUM(channels) AS BIGINT) AS channels, CAST(SUM(retained) AS BIGINT) AS retained FROM (
	SELECT owner, bytes, uploads, objects, names, channels, retained FROM usage
	UNION ALL SELECT owner, bytes, uploads, objects, names, channels, retained FROM usage_sums
	UNION ALL SELECT owner, -size, 0, -1, -(length(name_head) + length(name_tail) + COALESCE(length(metadata), 0)), 0, 0 FROM blobs WHERE owner IS NOT NULL
	UNION ALL SELECT owner, -bytes, -1, -parts, -(length(name) + COALESCE(length(metadata), 0)), 0, 0 FROM uploads WHERE owner IS NOT NULL AND state = 0
	UNION ALL SELECT owner, 0, 0, 0, 0, -1, 0 FROM channels WHERE owner IS NOT NULL
	UNION ALL SELECT owner, 0, 0, 0, 0, 0, -charge FROM garbage WHERE owner IS NOT NULL
	UNION ALL SELECT owner, 0, 0, 0, 0, 0, -charge FROM uploads WHERE owner IS NOT NULL
	UNION ALL SELECT owner, 0, 0, 0, 0, 0, -charge FROM idempotency WHERE owner IS NOT NULL) u
	GROUP BY owner HAVING SUM(bytes) <> 0 OR SUM(uploads) <> 0 OR SUM(objects) <> 0 OR SUM(names) <> 0 OR SUM(channels) <> 0 OR SUM(retained) <> 0`

// AuditContents reports contents that have other bytes than the blob or the open upload that has
// them, extents that do not follow each other, and contents and bodies to which nothing refers.
func AuditContents(t *engine.Tx, report func(format string, args ...any)) error {
	var content metastore.ContentID
	var part, have, want int64
	for _, check := range []struct{ query, finding string }{
		{extentsInOrder, "content %v: an extent of part %d begins at byte %d, and those before it end at byte %d"},
		{extentsOfBlobs, "content %v: its extents, from part %d on, have %d bytes, and its blob has %d"},
		{partsOfEvenBlobs, "content %v: part %d has %d bytes, and its blob's parts have %d there"},
		{extentsOfParts, "content %v: part %d has extents of %d bytes, and the part of the upload has %d"},
		{partsOfUploads, "content %v: its upload counts %d parts, and the bytes that it counts differ by %d; there are %d parts"},
		{garbageOfUploads, "content %v is garbage since %d, but the open upload with %d parts and revision %d has it"},
		{contentsOfNothing, "content %v: no blob has its parts %d to %d, of %d bytes, no upload has them, and they are not garbage"},
		{bodiesOfNothing, "content %v: part %d has a body at byte %d of %d bytes that no extent has"},
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

// notGarbage is the condition that the content in a row of e is not garbage: extents of garbage may
// have been dropped.
const notGarbage = `NOT EXISTS (SELECT 1 FROM garbage g WHERE g.content = e.content)`

const (
	extentsInOrder = `SELECT content, part, off, before FROM
		(SELECT content, part, off, CAST(SUM(size) OVER (PARTITION BY content, part ORDER BY off) AS BIGINT) - size AS before FROM extents) e
		WHERE off <> before AND ` + notGarbage

	extentsOfBlobs = `SELECT content, part, stored, size FROM
		(SELECT b.content, b.size, CAST(COALESCE((SELECT SUM(e.size) FROM extents e WHERE e.content = b.content), 0) AS BIGINT) AS stored,
			COALESCE((SELECT MIN(e.part) FROM extents e WHERE e.content = b.content), 0) AS part FROM blobs b) c
		WHERE size <> stored`

	extentsOfParts = `SELECT content, idx, stored, size FROM
		(SELECT p.content, p.idx, p.size,
			CAST(COALESCE((SELECT SUM(e.size) FROM extents e WHERE e.content = p.content AND e.part = p.idx), 0) AS BIGINT) AS stored
			FROM uploads u JOIN parts p ON p.content = u.content WHERE u.state = 0) c
		WHERE size <> stored`

	partsOfUploads = `SELECT content, parts, bytes - have, counted FROM
		(SELECT u.content, u.parts, u.bytes, (SELECT COUNT(*) FROM parts p WHERE p.content = u.content) AS counted,
			CAST(COALESCE((SELECT SUM(p.size) FROM parts p WHERE p.content = u.content), 0) AS BIGINT) AS have
			FROM uploads u WHERE u.state = 0) c
		WHERE parts <> counted OR bytes <> have`

	garbageOfUploads = `SELECT g.content, g.since, u.parts, u.revision FROM uploads u JOIN garbage g ON g.content = u.content WHERE u.state = 0`

	contentsOfNothing = `SELECT content, CAST(MAX(first) AS BIGINT), CAST(MAX(last) AS BIGINT), CAST(SUM(size) AS BIGINT) FROM (
		SELECT content, MIN(part) AS first, MAX(part) AS last, SUM(size) AS size, 0 AS users FROM extents GROUP BY content
		UNION ALL SELECT content, 0, 0, 0, 1 FROM blobs
		UNION ALL SELECT content, 0, 0, 0, 1 FROM uploads WHERE state = 0
		UNION ALL SELECT content, 0, 0, 0, 1 FROM garbage) c
		GROUP BY content HAVING SUM(users) = 0`

	bodiesOfNothing = `SELECT b.content, b.part, b.off, CAST(length(b.body) AS BIGINT) FROM bodies b
		WHERE NOT EXISTS (SELECT 1 FROM extents e WHERE e.content = b.content AND e.part = b.part AND e.off = b.off AND e.object IS NULL)`
)

var partsOfEvenBlobs = fmt.Sprintf(`SELECT content, part, have, want FROM
	(SELECT b.content, e.part, CAST(SUM(e.size) AS BIGINT) AS have,
		CASE WHEN b.size - e.part * b.part_size < b.part_size THEN b.size - e.part * b.part_size ELSE b.part_size END AS want
		FROM blobs b JOIN extents e ON e.content = b.content WHERE b.part_size BETWEEN 1 AND %d
		GROUP BY b.account, b.name_head, b.name_hash, b.content, b.size, b.part_size, e.part) c
	WHERE have <> want`, int64(metastore.UnevenParts)-1)
