package meta

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// treeless is the condition of the index blobs_treeless.
const treeless = `tree IS NULL AND size > 0`

// noDamage is the condition that the content of a blob b has no recorded damage.
const noDamage = ` AND NOT EXISTS (SELECT 1 FROM damaged d WHERE d.content = b.content)`

// Treeless implements metastore.Roots.
func (s *Metastore) Treeless(ctx context.Context, after metastore.ContentID, limit int) ([]metastore.ContentID, error) {
	return engine.ResultOf(ctx, s.in.Snapshot, func(t tx) ([]metastore.ContentID, error) {
		var id metastore.ContentID
		return engine.Collect(t.Tx, treelessContents, engine.Args{after[:], int64(limit)}, engine.Args{(*engine.ContentID)(&id)}, &id)
	})
}

// OpenTreeless implements metastore.Roots.
func (s *Metastore) OpenTreeless(ctx context.Context, content metastore.ContentID) (metastore.Blob, []metastore.Extent, error) {
	var b metastore.Blob
	var first []metastore.Extent
	err := s.in.Read(ctx, func(t tx) error {
		var r scannedRow
		var account, head, tail string
		found, err := t.Row(openTreeless, engine.Args{content[:]}, append(engine.Args{&account, &head, &tail}, r.places()...)...)
		if err == nil && !found {
			err = fmt.Errorf("content %v without a tree: %w", content, database.ErrNotFound)
		}
		if err != nil {
			return err
		}
		row, err := r.blobRow(account, head+tail)
		b, first = row.blob, row.first
		return err
	})
	return b, first, err
}

// TreelessTotals implements metastore.Roots.
func (s *Metastore) TreelessTotals(ctx context.Context) (metastore.TreelessTotals, error) {
	return engine.ResultOf(ctx, s.in.Snapshot, func(t tx) (found metastore.TreelessTotals, err error) {
		var count engine.Integer
		if _, err := t.Row(treelessCount, engine.Args{int64(metastore.MaxBacklog)}, &count); err != nil {
			return found, err
		}
		found.Contents = int(count)
		var first metastore.ContentID
		some, err := t.Row(`SELECT content FROM blobs b WHERE `+treeless+noDamage+` ORDER BY content LIMIT 1`, nil, (*engine.ContentID)(&first))
		if some {
			found.Oldest = time.UnixMilli(int64(binary.BigEndian.Uint64(first[:8]) >> 16)).UTC()
		}
		return found, err
	})
}

const (
	treelessContents = `SELECT DISTINCT content FROM blobs b WHERE ` + treeless + ` AND content > $1` + noDamage + ` ORDER BY content LIMIT ($2 + 0)`

	openTreeless = `SELECT f.*, ` + firstExtent + `
		FROM (SELECT account, name_head, name_tail, ` + blobColumns + `, row_sum FROM blobs WHERE ` + treeless + ` AND content = $1 LIMIT 1) f` + joinFirstExtent

	treelessCount = `SELECT COUNT(*) FROM (SELECT DISTINCT content FROM (SELECT b.content FROM blobs b WHERE ` + treeless + noDamage + ` ORDER BY b.content LIMIT ($1 + 0)) bounded) contents`
)

// lockTreeless returns the blobs without a Tree that have a content. They stay as they are until
// the transaction ends. Damaged rows are left out, and rows that another transaction has locked,
// because no order of locks would fit all.
func (t tx) lockTreeless(content metastore.ContentID) (list []storedBlob, err error) {
	lock := t.ForUpdate()
	if lock != "" {
		lock += " SKIP LOCKED"
	}
	var b storedBlob
	var head, tail string
	var sum engine.StoredSum
	err = t.Each(`SELECT account, name_head, name_tail, `+blobColumns+`, row_sum FROM blobs WHERE `+treeless+` AND content = $1`+lock,
		engine.Args{content[:]}, append(append(engine.Args{&b.Account, &head, &tail}, blobFields(&b.Blob)...), &sum), func() error {
			if b.Name, b.unsummed = head+tail, !sum.Known(); checkBlob(&b.Blob, sum) == nil {
				list = append(list, b)
			}
			return nil
		})
	return list, err
}

// AddTreeRow implements metastore.Roots.
func (s *Metastore) AddTreeRow(ctx context.Context, content metastore.ContentID, row metastore.TreeRow) error {
	return s.in.WriteLocked(ctx, func(t tx) error {
		list, err := t.lockTreeless(content)
		if err == nil && len(list) == 0 {
			err = fmt.Errorf("content %v without a tree: %w", content, database.ErrNotFound)
		}
		if err != nil {
			return err
		}
		return t.Change(`INSERT INTO trees (content, level, idx, hashes) VALUES ($1, $2, $3, $4)
			ON CONFLICT (content, level, idx) DO UPDATE SET hashes = excluded.hashes`, content[:], int64(row.Level), row.Index, row.Hashes)
	})
}

// TreeRow implements metastore.Roots.
func (s *Metastore) TreeRow(ctx context.Context, content metastore.ContentID, level int, index int64) ([]byte, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t tx) (hashes []byte, err error) {
		found, err := t.Row(`SELECT hashes FROM trees WHERE content = $1 AND level = $2 AND idx = $3`, engine.Args{content[:], int64(level), index}, &hashes)
		if err == nil && !found {
			err = fmt.Errorf("row %d of level %d in the tree of content %v: %w", index, level, content, database.ErrNotFound)
		}
		return hashes, err
	})
}

// SetRoots implements metastore.Roots.
func (s *Metastore) SetRoots(ctx context.Context, list []metastore.ContentRoot) error {
	return s.in.WriteLocked(ctx, func(t tx) error {
		for _, of := range list {
			blobs, err := t.lockTreeless(of.Content)
			if err != nil {
				return err
			}
			for i := range blobs {
				if err := t.setRoot(&blobs[i], of); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (t tx) setRoot(b *storedBlob, of metastore.ContentRoot) error {
	b.Root, b.Tree = of.Root, of.Tree
	var sum any
	if !b.unsummed {
		sum = blobSum(&b.Blob)
	}
	n := splitName(b.Name)
	t.Touch(rowKey(b.Account, n))
	return t.Change(`UPDATE blobs SET root = $4, tree = $5, row_sum = $6`+ofName, []byte(b.Account), n.head, n.hash, of.Root, of.Tree, sum)
}
