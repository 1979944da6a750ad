package meta

import (
	"time"

	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// rowColumns are the columns of rowValues, and the last one.
const rowColumns = `account, name_head, name_hash, ` + blobColumns + `, shared, row_sum, name_tail`

// rowValues returns the values of a row's columns: its key, blobColumns, shared and row_sum.
func rowValues(b *storedBlob, n name) (engine.Args, error) {
	version, err := versionOf(&b.Blob)
	return append(make(engine.Args, 0, 20),
		[]byte(b.Account), n.head, n.hash, b.Content[:], b.Size, int64(b.CRC64), b.PartSize, engine.BytesColumn(b.SHA256),
		engine.TextColumn(b.ContentType), engine.Micros(b.Modified), expiresOf(&b.Blob), engine.OptionalColumn(b.Owner), engine.FlagColumn(b.SharedSecond), version,
		engine.OptionalColumn(b.Metadata), engine.FlagColumn(b.shared), blobSum(&b.Blob)), err
}

// insertRow writes the row of b as it is.
func (t tx) insertRow(b *storedBlob) error {
	values, err := t.newRow(b)
	if err != nil {
		return err
	}
	return t.Change(t.counting(insertRow), values...)
}

// newRow returns the values of rowColumns for a row that is inserted.
func (t tx) newRow(b *storedBlob) (engine.Args, error) {
	n := splitName(b.Name)
	values, err := rowValues(b, n)
	t.Touch(rowKey(b.Account, n))
	return append(values, n.tail), err
}

const insertRow = `INSERT INTO blobs (` + rowColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`

// counting returns a statement that inserts a row of blobs and, unless a trigger does, counts it.
func (t tx) counting(insert string) string {
	if t.Embedded() {
		return insert
	}
	return withCount + insert
}

const withCount = `WITH counted AS (INSERT INTO account_deltas (account, blobs, bytes) VALUES ($1, 1, $5)) `

// insertBlob writes the name's first row. Its time is not before the one that deleted_blobs has for
// the name, if any. It sets b.Modified and b.SharedSecond, and records the change.
func (t tx) insertBlob(b *storedBlob, kind metastore.ChangeKind) error {
	n := splitName(b.Name)
	values, err := rowValues(b, n)
	if err != nil {
		return err
	}
	t.Touch(rowKey(b.Account, n))
	t.Changed = true // row does not set it
	query, values := t.counting(insertBlob), append(values, n.tail, b.Modified.Truncate(time.Second).UnixMicro())
	if !t.Embedded() { // another statement would cost a round trip
		if t.changed(kind, &b.Blob) {
			packed, newest := t.TakeChanges() // which begins with Modified
			query, values = insertBlobAndChange, append(values, packed[:newest:newest], packed[newest+8:])
		}
	}
	_, err = t.Row(query, values, (*engine.Instant)(&b.Modified), (*engine.Boolean)(&b.SharedSecond))
	if t.Embedded() {
		t.changed(kind, &b.Blob)
	}
	return err
}

const (
	insertBlob = `INSERT INTO blobs (` + rowColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,
			(SELECT MAX(m) FROM (SELECT CAST($10 AS BIGINT) AS m UNION ALL
				SELECT modified FROM deleted_blobs WHERE account = $1 AND name_head = $2 AND name_hash = $3) AS times),
			$11, $12,
			CASE WHEN CAST($13 AS BIGINT) = 1 OR EXISTS (SELECT 1 FROM deleted_blobs WHERE account = $1 AND name_head = $2 AND name_hash = $3 AND modified >= $19)
				THEN 1 ELSE 0 END, $14, $15, $16, $17, $18)
		RETURNING modified, shared_second`
	insertBlobAndChange = withCount + `, stored AS (` + insertBlob + `),
			queued AS (INSERT INTO changes_queue (packed) SELECT CAST($20 AS BYTEA) || int8send(modified) || CAST($21 AS BYTEA) FROM stored)
		SELECT modified, shared_second FROM stored`
)

// createBlob writes the row of b and sets b.Modified and b.SharedSecond, if the name has neither a
// row nor one in deleted_blobs, and the account no rule. It reports whether it has done that, which
// on SQLite saves a statement and the temporary tables of insertBlob. On PostgreSQL, where a name
// that has a row would cost one more round trip, it never does.
func (t tx) createBlob(b *storedBlob) (bool, error) {
	if !t.Embedded() || expired(b.Expires, t.Now) || b.Lock != (metastore.Lock{}) {
		return false, nil
	}
	n := splitName(b.Name)
	by := b.By
	b.Modified, b.By = t.Now, ""
	values, err := rowValues(b, n)
	b.By = by
	if err != nil {
		return false, err
	}
	// The column modified must not be NULL, so that the row is also ignored for a deleted name.
	rows, err := t.Exec(`INSERT OR IGNORE INTO blobs (`+rowColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,
			CASE WHEN EXISTS (SELECT 1 FROM deleted_blobs WHERE account = $1 AND name_head = $2 AND name_hash = $3)
				OR EXISTS (SELECT 1 FROM keeping WHERE account = $19) THEN NULL ELSE $10 END,
			$11, $12, $13, $14, $15, $16, $17, $18)`,
		append(values, n.tail, ruledBy(b.Account, b.Name, values[0]))...)
	if err != nil || rows == 0 {
		return false, err
	}
	t.Touch(rowKey(b.Account, n))
	b.By = ""
	return true, nil
}
