package meta

import (
	"hash/crc32"

	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// A content that several blobs have, or had since it was copied, has a row in the table shares with
// the number of these blobs. Each of them has the flag storedBlob.shared. A content that was never
// copied has neither, so that its blobs cost nothing more.

// share returns the content for another blob that has the bytes of b, with whether it is shared.
// The row of b must be locked.
func (t tx) share(b storedBlob) (metastore.ContentID, bool, error) {
	if b.shared {
		return b.Content, true, t.Change(`UPDATE shares SET refs = refs + 1 WHERE content = $1`, b.Content[:])
	}
	if extents, small, err := t.inlineContent(b.Blob); err != nil {
		return metastore.ContentID{}, false, err
	} else if small {
		fresh := metastore.NewContentID(t.Now)
		return fresh, false, t.addExtents(fresh, extents)
	}
	if err := t.Change(`INSERT INTO shares (content, refs) VALUES ($1, 2)`, b.Content[:]); err != nil {
		return metastore.ContentID{}, false, err
	}
	n := splitName(b.Name)
	t.Touch(rowKey(b.Account, n))
	return b.Content, true, t.Change(`UPDATE blobs SET shared = 1 WHERE account = $1 AND name_head = $2 AND name_hash = $3`,
		[]byte(b.Account), n.head, n.hash)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// inlineContent returns a blob's extents if its content is empty or has a single, inline extent,
// and reports whether that is so. It is not for an uneven content, because that also has starts,
// nor if the body is damaged: backups have it for this content alone.
func (t tx) inlineContent(b metastore.Blob) ([]metastore.Extent, bool, error) {
	if b.Size == 0 || b.PartSize == metastore.UnevenParts {
		return nil, b.Size == 0, nil
	}
	var e metastore.Extent
	var part engine.Integer
	var sum engine.StoredSum
	found, err := t.Row(`SELECT e.part, e.size, e.blocks, b.body, e.row_sum FROM extents e
		JOIN bodies b ON b.content = e.content AND b.part = e.part AND b.off = e.off
		WHERE e.content = $1 AND e.off = 0 AND e.size = $2`, engine.Args{b.Content[:], b.Size},
		&part, (*engine.Integer)(&e.Size), (*engine.Blocks)(&e.Blocks), (*engine.Body)(&e.Body), &sum)
	e.Part = int(part)
	if err == nil && found {
		err = checkExtentRow(&b.Content, &e, sum)
		found = len(e.Blocks) == 1 && crc32.Checksum(e.Body, castagnoli) == e.Blocks[0]
	}
	return []metastore.Extent{e}, found, err
}

// lockShares locks the rows of shares of two contents in one order, before both are changed. All
// transactions lock rows of blobs first.
func (t tx) lockShares(a, b end) error {
	if !a.shared || !b.shared || a.Content == b.Content {
		return nil
	}
	var one engine.Integer
	return t.Each(`SELECT 1 FROM shares WHERE content IN ($1, $2) ORDER BY content`+t.ForUpdate(),
		engine.Args{a.Content[:], b.Content[:]}, engine.Args{&one}, func() error { return nil })
}

// dropReference counts that a blob no longer has a content, and reports whether no other has it.
// The blob's row must be locked, and the caller must make the content garbage if no other has it.
func (t tx) dropReference(content metastore.ContentID, shared bool) (last bool, err error) {
	if !shared {
		return true, nil // before content is allocated for a statement
	}
	return t.countDown(content)
}

// countDown is dropReference for a shared content.
func (t tx) countDown(content metastore.ContentID) (last bool, err error) {
	n, err := t.Exec(`UPDATE shares SET refs = refs - 1 WHERE content = $1 AND refs > 1`, content[:])
	if err != nil || n > 0 {
		return false, err
	}
	// No copy can add a reference meanwhile: the only blob that could be its source is locked.
	return true, t.Change(`DELETE FROM shares WHERE content = $1`, content[:])
}
