package meta

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// blockBytes is a block's length in bytes. An extent's last block may be shorter.
const blockBytes = 1 << 20

// stillDamaged is the condition that the extent in row d of damaged still has the object that was
// damaged, and its bytes are still needed.
const stillDamaged = `EXISTS (SELECT 1 FROM extents e WHERE e.content = d.content AND e.part = d.part AND e.off = d.off
		AND (e.object = d.object OR e.object IS NULL AND d.object IS NULL) AND NOT ` + inGarbage + `)`

// badBytes returns how many bytes an extent's damaged blocks have.
func badBytes(bad uint64, size int64) int64 {
	n := int64(bits.OnesCount64(bad)) * blockBytes
	if last := (size - 1) / blockBytes; bad>>last&1 == 1 {
		n -= (last+1)*blockBytes - size
	}
	return n
}

// RecordDamage implements metastore.Integrity.
func (s *Metastore) RecordDamage(ctx context.Context, d metastore.Damage) (recorded bool, err error) {
	err = s.in.Write(ctx, func(t tx) error {
		recorded = false
		current, err := t.hasObject(d)
		if err != nil || !current {
			return err
		}
		since, bad := t.Now.UnixMicro(), d.Bad
		var known, first int64
		var object engine.OptionalText
		found, err := t.Row(`SELECT bad, since, object FROM damaged WHERE content = $1 AND part = $2 AND off = $3`,
			extentKey(d.ExtentID), (*engine.Integer)(&known), (*engine.Integer)(&first), &object)
		if err != nil {
			return err
		}
		if found && string(object) == d.Object {
			since, bad = first, bad|uint64(known)
		}
		recorded = true
		return t.Change(`INSERT INTO damaged (content, part, off, size, object, bad, bytes, since, reason) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
			ON CONFLICT (content, part, off) DO UPDATE SET size = excluded.size, object = excluded.object, bad = excluded.bad,
				bytes = excluded.bytes, since = excluded.since, reason = excluded.reason`,
			append(extentKey(d.ExtentID), d.Size, engine.OptionalColumn(d.Object), int64(bad), badBytes(bad, d.Size), since, []byte(d.Reason))...)
	})
	return recorded && err == nil, err
}

// extentKey returns the values of an extent's key.
func extentKey(id metastore.ExtentID) engine.Args {
	return engine.Args{id.Content[:], int64(id.Part), id.Offset}
}

// hasObject reports whether an extent has the object of d, or none, and its content is not garbage.
func (t tx) hasObject(d metastore.Damage) (bool, error) {
	var object engine.OptionalText
	found, err := t.Row(`SELECT e.object FROM extents e WHERE e.content = $1 AND e.part = $2 AND e.off = $3 AND NOT `+inGarbage, extentKey(d.ExtentID), &object)
	return found && string(object) == d.Object, err
}

// ForgetDamage implements metastore.Integrity.
func (s *Metastore) ForgetDamage(ctx context.Context, d metastore.Damage) error {
	return s.in.Write(ctx, func(t tx) error {
		object := engine.OptionalColumn(d.Object)
		if object == nil {
			_, err := t.Exec(`DELETE FROM damaged WHERE content = $1 AND part = $2 AND off = $3 AND object IS NULL`, extentKey(d.ExtentID)...)
			return err
		}
		_, err := t.Exec(`DELETE FROM damaged WHERE content = $1 AND part = $2 AND off = $3 AND object = $4`, append(extentKey(d.ExtentID), object)...)
		return err
	})
}

// Damages implements metastore.Integrity.
func (s *Metastore) Damages(ctx context.Context, after metastore.ExtentID, limit int) ([]metastore.Damage, error) {
	return s.damages(ctx, `(d.content, d.part, d.off) > ($1, $2, $3) AND `+stillDamaged+` ORDER BY d.content, d.part, d.off LIMIT ($4 + 0)`,
		append(extentKey(after), int64(limit)))
}

// DamagesOf implements metastore.Integrity.
func (s *Metastore) DamagesOf(ctx context.Context, content metastore.ContentID) ([]metastore.Damage, error) {
	return s.damages(ctx, `d.content = $1 AND `+stillDamaged+` ORDER BY d.part, d.off`, engine.Args{content[:]})
}

// damages returns the damage that meets a condition.
func (s *Metastore) damages(ctx context.Context, condition string, in engine.Args) (list []metastore.Damage, err error) {
	err = s.in.Read(ctx, func(t tx) error {
		var d metastore.Damage
		var part, bad engine.Integer
		list = nil
		return t.Each(`SELECT d.content, d.part, d.off, d.size, d.object, d.bad, d.bytes, d.since, d.reason FROM damaged d WHERE `+condition, in,
			engine.Args{(*engine.ContentID)(&d.Content), &part, (*engine.Integer)(&d.Offset), (*engine.Integer)(&d.Size), (*engine.OptionalText)(&d.Object),
				&bad, (*engine.Integer)(&d.Bytes), (*engine.Instant)(&d.Since), &d.Reason},
			func() error {
				d.Part, d.Bad = int(part), uint64(bad)
				list = append(list, d)
				return nil
			})
	})
	return list, err
}

// DamageTotals implements metastore.Integrity.
func (s *Metastore) DamageTotals(ctx context.Context) (sum metastore.DamageTotals, err error) {
	err = s.in.Read(ctx, func(t tx) error {
		_, err := t.Row(`SELECT COUNT(DISTINCT d.content), COUNT(*), CAST(COALESCE(SUM(d.bytes), 0) AS BIGINT), MIN(d.since) FROM damaged d WHERE `+stillDamaged, nil,
			(*engine.Integer)(&sum.Contents), (*engine.Integer)(&sum.Extents), (*engine.Integer)(&sum.Bytes), (*engine.Instant)(&sum.Since))
		return err
	})
	return sum, err
}

// PruneDamage implements metastore.Integrity.
func (s *Metastore) PruneDamage(ctx context.Context, limit int) (removed int, err error) {
	some, err := engine.ResultOf(ctx, s.in.Read, func(t tx) (bool, error) {
		var one engine.Integer
		return t.Row(`SELECT 1 FROM damaged LIMIT 1`, nil, &one)
	})
	if err != nil || !some { // the usual case costs no write
		return 0, err
	}
	err = s.in.Write(ctx, func(t tx) error {
		n, err := t.Exec(`DELETE FROM damaged WHERE (content, part, off) IN
			(SELECT d.content, d.part, d.off FROM damaged d WHERE NOT `+stillDamaged+` LIMIT ($1 + 0))`, int64(limit))
		removed = int(n)
		return err
	})
	return removed, err
}

// BlobsWith implements metastore.Integrity.
func (s *Metastore) BlobsWith(ctx context.Context, contents []metastore.ContentID) ([]metastore.BlobContent, error) {
	if err := checkContents(contents); err != nil {
		return nil, err
	}
	wanted := make(map[metastore.ContentID]bool, len(contents))
	for _, id := range contents {
		wanted[id] = true
	}
	var list []metastore.BlobContent
	err := s.in.SnapshotList(ctx, func(t tx) error {
		list = nil
		var b metastore.BlobContent
		var tail string
		// There is no index on contents, which would cost every write.
		return t.Each(`SELECT account, name_head, name_tail, content FROM blobs ORDER BY account, name_head, name_tail`, nil,
			engine.Args{&b.Account, &b.Name, &tail, (*engine.ContentID)(&b.Content)}, func() error {
				if wanted[b.Content] {
					found := b
					found.Name += tail
					if of, modified, ok := metastore.KeptBlob(found.Account, found.Name); ok {
						found.BlobName, found.Version = of, metastore.VersionOf(&metastore.Blob{Modified: modified, Content: found.Content})
					}
					list = append(list, found)
				}
				return nil
			})
	})
	slices.SortStableFunc(list, func(a, b metastore.BlobContent) int {
		return cmp.Or(strings.Compare(a.Account, b.Account), strings.Compare(a.Name, b.Name), bytes.Compare(a.Content[:], b.Content[:]))
	})
	return list, err
}

// HealExtent implements metastore.Integrity.
func (s *Metastore) HealExtent(ctx context.Context, d metastore.Damage, fresh metastore.Extent, retired metastore.ContentID) error {
	return s.in.Write(ctx, func(t tx) error {
		if err := checkAge([]metastore.Extent{fresh}, t.Now); err != nil {
			return err
		}
		current, err := t.hasObject(d)
		if err == nil && (!current || d.Object == "") {
			err = fmt.Errorf("the extent no longer has the object %q: %w", d.Object, database.ErrNotFound)
		}
		if err != nil {
			return err
		}
		old := metastore.Extent{Size: d.Size, Object: d.Object}
		if _, err := t.Row(`SELECT blocks FROM extents WHERE content = $1 AND part = $2 AND off = $3`, extentKey(d.ExtentID), (*engine.Blocks)(&old.Blocks)); err != nil {
			return err
		}
		healed := metastore.Extent{Part: d.Part, Offset: d.Offset, Size: d.Size, Blocks: old.Blocks, Object: fresh.Object}
		n, err := t.Exec(`UPDATE extents SET object = $5, row_sum = $6 WHERE content = $1 AND part = $2 AND off = $3 AND object = $4`,
			append(extentKey(d.ExtentID), []byte(d.Object), []byte(fresh.Object), extentSum(&d.Content, &healed))...)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("the extent no longer has the object %q: %w", d.Object, database.ErrNotFound)
		}
		if err := t.addRows(insertExtents[len(insertExtents)-1], retired, []metastore.Extent{old}); err != nil {
			return err
		}
		if err := t.Change(`INSERT INTO garbage (content, since, charge) VALUES ($1, $2, 0)`, retired[:], t.Now.UnixMicro()); err != nil {
			return err
		}
		t.TouchAll() // the content's blobs may be many, and are not known
		_, err = t.Exec(`DELETE FROM damaged WHERE content = $1 AND part = $2 AND off = $3`, extentKey(d.ExtentID)...)
		return err
	})
}

// HealBody implements metastore.Integrity.
func (s *Metastore) HealBody(ctx context.Context, d metastore.Damage, damaged, body []byte) error {
	return s.in.Write(ctx, func(t tx) error {
		if d.Object != "" {
			return fmt.Errorf("the extent is not inline: %w", database.ErrNotFound)
		}
		current, err := t.hasObject(d)
		if err == nil && !current {
			err = fmt.Errorf("the extent is gone: %w", database.ErrNotFound)
		}
		if err != nil {
			return err
		}
		// In SQLite a value of another type, which is no body, precedes all bytes.
		n, err := t.Exec(`INSERT INTO bodies (content, part, off, body) VALUES ($1, $2, $3, $4)
			ON CONFLICT (content, part, off) DO UPDATE SET body = excluded.body WHERE bodies.body = $5 OR bodies.body < $6`,
			append(extentKey(d.ExtentID), body, append([]byte{}, damaged...), []byte{})...)
		if err == nil && n == 0 {
			err = fmt.Errorf("the extent has another body by now: %w", database.ErrNotFound)
		}
		if err != nil {
			return err
		}
		t.TouchAll() // the content's blobs may be many, and are not known
		_, err = t.Exec(`DELETE FROM damaged WHERE content = $1 AND part = $2 AND off = $3`, extentKey(d.ExtentID)...)
		return err
	})
}
