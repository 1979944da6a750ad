package meta

import (
	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// blobColumns are a blob's columns, in blobFields' order. blobColumnsAlone are the same without the
// last one.
const (
	blobColumns      = blobColumnsAlone + `, metadata`
	blobColumnsAlone = `content, size, crc64, part_size, sha256, content_type, modified, expires, owner, shared_second, version`
)

// storedBlob is a row in the table blobs.
type storedBlob struct {
	metastore.Blob
	shared bool // whether a row in the table shares counts the blobs that have the content
	rule   rule // the account's, if lockBlob returns it

	lockStored bool // whether the lock of a blob that is committed is as an upload has stored it
}

func blobFields(b *metastore.Blob) engine.Args {
	return append(make(engine.Args, 0, 20), // callers append a few
		(*engine.ContentID)(&b.Content), (*engine.Integer)(&b.Size), (*engine.CRC)(&b.CRC64), (*engine.Integer)(&b.PartSize),
		&b.SHA256, &b.ContentType, (*engine.Instant)(&b.Modified), (*engine.Instant)(&b.Expires),
		(*engine.OptionalText)(&b.Owner), (*engine.Boolean)(&b.SharedSecond), (*versionColumn)(b),
		(*engine.OptionalText)(&b.Metadata))
}

// blobRow is a row of blobs with the extent that has its first byte, if any. It must not be
// modified. The blob has neither Account nor Name. Its reader knows them: its reader's copies are
// parts of a request, and a cached row would keep the whole request in memory.
type blobRow struct {
	found bool
	blob  metastore.Blob
	first []metastore.Extent
}

// blobRow returns a name's row, with found unset if there is none.
func (t tx) blobRow(account, blobName string) (*blobRow, error) {
	n := splitName(blobName)
	var r scannedRow
	found, err := t.Row(
		`SELECT f.*, `+firstExtent+`
		FROM (SELECT `+blobColumns+`, row_sum FROM blobs WHERE account = $1 AND name_head = $2 AND name_hash = $3) f`+joinFirstExtent,
		engine.Args{[]byte(account), n.head, n.hash}, r.places()...)
	if err != nil || !found {
		return &blobRow{}, err
	}
	return r.blobRow(account, blobName)
}

// The columns that a query for blobRow selects besides the row f of blobs, and how it joins them:
// for one row f, and for several.
const (
	firstExtent     = `COALESCE(e.size, 0), e.blocks, e.object, i.body, e.row_sum`
	joinFirstExtent = `
		LEFT JOIN extents e ON e.content = f.content AND e.part = 0 AND e.off = 0
		LEFT JOIN bodies i ON e.object IS NULL AND i.content = f.content AND i.part = 0 AND i.off = 0`
	joinFirstExtentOfEach = `
		LEFT JOIN LATERAL (SELECT size, blocks, object, row_sum FROM extents WHERE content = f.content AND part = 0 AND off = 0 LIMIT 1) e ON true
		LEFT JOIN LATERAL (SELECT body FROM bodies WHERE e.object IS NULL AND content = f.content AND part = 0 AND off = 0 LIMIT 1) i ON true`
)

// scannedRow has the columns that a query for blobRow selects.
type scannedRow struct {
	blob    metastore.Blob
	blobSum engine.StoredSum
	first   metastore.Extent // without a size: there is none
	sum     engine.StoredSum // of first
}

func (r *scannedRow) places() engine.Args {
	return append(blobFields(&r.blob), &r.blobSum,
		(*engine.Integer)(&r.first.Size), (*engine.Blocks)(&r.first.Blocks), (*engine.OptionalText)(&r.first.Object), (*engine.Body)(&r.first.Body), &r.sum)
}

// blobRow compares the row with its checksums.
func (r *scannedRow) blobRow(account, name string) (*blobRow, error) {
	row := &blobRow{found: true, blob: r.blob}
	named := r.blob
	named.Account, named.Name = account, name
	if err := checkBlob(&named, r.blobSum); err != nil {
		return row, err
	}
	if r.first.Size == 0 {
		return row, nil
	}
	row.first = []metastore.Extent{r.first}
	return row, checkExtentRow(&row.blob.Content, &row.first[0], r.sum)
}
