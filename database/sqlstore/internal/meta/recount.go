package meta

import (
	"context"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/usage"
	"sluice/metastore"
)

const (
	// recountPage is how many counts a transaction corrects at most. It reads all rows that are
	// counted, whatever it corrects.
	recountPage = 10_000
	// recountPatience bounds such a transaction on PostgreSQL.
	recountPatience = time.Hour
)

// recount calls correct in transactions of their own. It corrects counts with keys greater than
// after, in their order, reports a sentence about each, and returns the last key, or nil if no
// other count can be wrong.
func (s *Metastore) recount(ctx context.Context, repaired func(format string, args ...any), correct func(t tx, after []byte, say func(format string, args ...any)) (last []byte, err error)) error {
	type sentence struct {
		format string
		args   []any
	}
	for after := []byte{}; ; {
		var said []sentence
		var last []byte
		err := s.in.WriteLocked(database.WithPatience(ctx, recountPatience), func(t tx) (err error) {
			said = nil
			last, err = correct(t, after, func(format string, args ...any) { said = append(said, sentence{format, args}) })
			return err
		})
		if err != nil {
			return err
		}
		for _, one := range said {
			repaired(one.format, one.args...)
		}
		if last == nil {
			return nil
		}
		after = last
	}
}

// pageEnd returns the last key of a page, or nil if it was the last page.
func pageEnd[T any](list []T, size int, key func(T) []byte) []byte {
	if len(list) < size {
		return nil
	}
	return key(list[len(list)-1])
}

// RecountAccounts counts the blobs of each account again, and calls repaired with a sentence for
// each count that was wrong, once the correction is durable. It is exact beside other users: a
// transaction that changes blobs changes the counts as much, so that the difference between them
// is the same in every state.
func (s *Metastore) RecountAccounts(ctx context.Context, repaired func(format string, args ...any)) error {
	return s.recount(ctx, repaired, func(t tx, after []byte, say func(format string, args ...any)) ([]byte, error) {
		// Folds add to the same rows.
		if err := t.Lock(AccountCounts.Deltas); err != nil {
			return nil, err
		}
		var d accountDifference
		list, err := engine.Collect(t.Tx, page(accountDifferences, "account"), engine.Args{after, int64(recountPage)}, d.fields(), &d)
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			if err := AccountCounts.Add(t.Tx, d.account, []int64{d.blobs - d.countedBlobs, d.size - d.countedSize}); err != nil {
				return nil, err
			}
			say("account %q: %d blobs of %d bytes were counted, and there are %d of %d", d.account, d.countedBlobs, d.countedSize, d.blobs, d.size)
		}
		return pageEnd(list, recountPage, func(d accountDifference) []byte { return []byte(d.account) }), nil
	})
}

// page selects the first rows of a query with keys greater than $1, at most $2.
func page(query, key string) string {
	return `SELECT * FROM (` + query + `) d WHERE ` + key + ` > $1 ORDER BY ` + key + ` LIMIT ($2 + 0)`
}

// RecountUsage corrects each owner's usage by its rows, as RecountAccounts does for accounts.
func (s *Metastore) RecountUsage(ctx context.Context, repaired func(format string, args ...any)) error {
	return s.recount(ctx, repaired, func(t tx, after []byte, say func(format string, args ...any)) ([]byte, error) {
		if err := t.Lock("recount", usage.Owners.Deltas); err != nil { // against a second correction
			return nil, err
		}
		var d usage.Delta
		list, err := engine.Collect(t.Tx, page(usageDifferences, "owner"), engine.Args{after, int64(recountPage)}, append(engine.Args{&d.Owner}, usage.Fields(&d.Used)...), &d)
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			if err := usage.Record(t.Tx, d.Negated()); err != nil {
				return nil, err
			}
			say("owner %q: counted beyond what is stored were %s", d.Owner, usageText(d.Used))
		}
		return pageEnd(list, recountPage, func(d usage.Delta) []byte { return []byte(d.Owner) }), nil
	})
}

// RecountShares counts again how many blobs have each content, as RecountAccounts does for
// accounts, and marks these blobs as sharing it. It locks the blobs of a content before it counts
// them: a further blob gets the content only by a copy of one of them.
func (s *Metastore) RecountShares(ctx context.Context, repaired func(format string, args ...any)) error {
	return s.recount(ctx, repaired, func(t tx, after []byte, say func(format string, args ...any)) ([]byte, error) {
		var d shareDifference
		list, err := engine.Collect(t.Tx, page(shareDifferences, "content"), engine.Args{after, int64(engine.RowsPerStatement)}, d.fields(), &d)
		if err != nil {
			return nil, err
		}
		contents := make([]metastore.ContentID, len(list))
		for i := range list {
			contents[i] = list[i].content
		}
		if err := forLists(contents, func(in string, args engine.Args) error { return t.recountShares(in, args, say) }); err != nil {
			return nil, err
		}
		return pageEnd(list, engine.RowsPerStatement, func(d shareDifference) []byte { return d.content[:] }), nil
	})
}

// recountShares is RecountShares for the contents in a list.
func (t tx) recountShares(list string, in engine.Args, say func(format string, args ...any)) error {
	if err := t.lockBlobsOf(list, in); err != nil {
		return err
	}
	var d shareDifference
	found, err := engine.Collect(t.Tx, `SELECT * FROM (`+shareDifferences+`) d WHERE content IN (`+list+`) ORDER BY content`, in, d.fields(), &d)
	if err != nil {
		return err
	}
	for _, d := range found {
		if err := t.setReferences(d.content, d.blobs); err != nil {
			return err
		}
		say("content %v: %d references were counted, and of %d blobs %d were marked as sharing it", d.content, d.refs, d.blobs, d.flagged)
	}
	return nil
}

// lockBlobsOf locks all blobs that have a content in the list. One that was given to another blob
// meanwhile is found by counting them.
func (t tx) lockBlobsOf(list string, in engine.Args) error {
	for {
		var one, blobs engine.Integer
		locked := int64(0)
		err := t.Each(`SELECT 1 FROM blobs WHERE content IN (`+list+`) ORDER BY account, name_head, name_hash`+t.ForUpdate(), in, engine.Args{&one}, func() error {
			locked++
			return nil
		})
		if err == nil {
			_, err = t.Row(`SELECT COUNT(*) FROM blobs WHERE content IN (`+list+`)`, in, &blobs)
		}
		if err != nil || locked == int64(blobs) {
			return err
		}
	}
}

// setReferences makes a content one that this number of blobs share. They must be locked.
func (t tx) setReferences(content metastore.ContentID, blobs int64) error {
	if blobs == 0 {
		return t.Change(`DELETE FROM shares WHERE content = $1`, content[:])
	}
	t.TouchAll()
	if err := t.Change(`UPDATE blobs SET shared = 1 WHERE content = $1 AND shared <> 1`, content[:]); err != nil {
		return err
	}
	return t.Change(`INSERT INTO shares (content, refs) VALUES ($1, $2) ON CONFLICT (content) DO UPDATE SET refs = excluded.refs`, content[:], blobs)
}

// RecountUploads counts the parts of each open upload again, as RecountAccounts does for accounts,
// if their extents have the bytes that the parts have. Otherwise the parts are damaged.
func (s *Metastore) RecountUploads(ctx context.Context, repaired func(format string, args ...any)) error {
	return s.recount(ctx, repaired, func(t tx, after []byte, say func(format string, args ...any)) ([]byte, error) {
		var d uploadDifference
		list, err := engine.Collect(t.Tx, page(uploadDifferences, "id"), engine.Args{after, int64(engine.RowsPerStatement)}, d.fields(), &d)
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			if err := t.recountUpload(d.id, say); err != nil {
				return nil, err
			}
		}
		return pageEnd(list, engine.RowsPerStatement, func(d uploadDifference) []byte { return []byte(d.id) }), nil
	})
}

func (t tx) recountUpload(id string, say func(format string, args ...any)) error {
	var one engine.Integer
	if _, err := t.Row(`SELECT 1 FROM uploads WHERE id = $1`+t.ForUpdate(), engine.Args{[]byte(id)}, &one); err != nil {
		return err
	}
	var d uploadDifference
	found, err := t.Row(`SELECT * FROM (`+uploadDifferences+`) d WHERE id = $1`, engine.Args{[]byte(id)}, d.fields()...)
	if err != nil || !found {
		return err
	}
	say("the open upload with content %v: %d parts of %d bytes were counted, and there are %d of %d", d.content, d.countedParts, d.countedBytes, d.parts, d.bytes)
	return t.Change(`UPDATE uploads SET parts = $2, bytes = $3 WHERE id = $1`, []byte(id), d.parts, d.bytes)
}

// uploadDifference is an open upload that counts other parts than it has, and the parts are whole.
type uploadDifference struct {
	id                                       string
	content                                  metastore.ContentID
	countedParts, countedBytes, parts, bytes int64
}

func (d *uploadDifference) fields() engine.Args {
	return engine.Args{
		&d.id, (*engine.ContentID)(&d.content), (*engine.Integer)(&d.countedParts), (*engine.Integer)(&d.countedBytes),
		(*engine.Integer)(&d.parts), (*engine.Integer)(&d.bytes),
	}
}

const uploadDifferences = `SELECT id, content, parts, bytes, there, have FROM
	(SELECT u.id, u.content, u.parts, u.bytes, (SELECT COUNT(*) FROM parts p WHERE p.content = u.content) AS there,
		CAST(COALESCE((SELECT SUM(p.size) FROM parts p WHERE p.content = u.content), 0) AS BIGINT) AS have,
		CAST(COALESCE((SELECT SUM(e.size) FROM extents e WHERE e.content = u.content), 0) AS BIGINT) AS stored
		FROM uploads u WHERE u.state = 0) c
	WHERE (parts <> there OR bytes <> have) AND have = stored AND NOT EXISTS (SELECT 1 FROM parts p WHERE p.content = c.content AND p.size <>
		CAST(COALESCE((SELECT SUM(e.size) FROM extents e WHERE e.content = p.content AND e.part = p.idx), 0) AS BIGINT))`
