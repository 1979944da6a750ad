package meta

import (
	"context"
	"maps"
	"slices"

	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// PurgeChanges implements metastore.Changes.
func (s *Metastore) PurgeChanges(ctx context.Context, bounds metastore.ChangeBounds, limit int) (removed int64, more bool, err error) {
	if err := s.numberChanges(ctx); err != nil {
		return 0, false, err
	}
	for _, step := range []struct {
		write func(context.Context, func(tx) error) error
		run   func(*changePurge) error
	}{
		{s.in.WriteLocked, (*changePurge).count},
		{s.in.WriteLocked, (*changePurge).evict},
		{s.in.WriteLockedForDeletion, (*changePurge).purgeOld},
	} {
		p, err := engine.ResultOf(ctx, step.write, func(t tx) (*changePurge, error) {
			// Readers of changes and the numbering of new ones do not wait for it.
			if err := t.Lock("changes purge"); err != nil {
				return nil, err
			}
			state, err := t.feedState("", false)
			if err != nil {
				return nil, err
			}
			p := &changePurge{tx: t, feedState: state, bounds: bounds, limit: limit, owners: map[string]ownerChanges{}}
			if err := step.run(p); err != nil {
				return nil, err
			}
			return p, p.addCounts()
		})
		if err != nil {
			return removed, more, err
		}
		removed, more = removed+p.removed, more || p.more
	}
	return removed, more, nil
}

// changePurge is a step of PurgeChanges. No other one runs.
type changePurge struct {
	tx
	feedState
	bounds  metastore.ChangeBounds
	limit   int
	owners  map[string]ownerChanges // the step's additions to each owner's counts
	removed int64
	more    bool
}

// ownerChanges count an owner's changes.
type ownerChanges struct{ changes, bytes int64 }

func (o ownerChanges) exceeds(b metastore.ChangeBounds) bool {
	return o.changes > b.Changes || o.bytes > b.Bytes
}

// rows returns the rows that meet a condition, within the step's bounds, and without the newest.
// It sets p.more if more may follow. A damaged row has no changes: they count for no one.
func (p *changePurge) rows(condition string, in ...any) (list []engine.ChangeRow, err error) {
	bytes := 0
	err = p.changeRows(condition, in, p.limit, func(row *engine.ChangeRow, damaged bool) bool {
		bytes += len(row.Packed)
		if damaged {
			row.Packed = nil
		}
		list = append(list, *row)
		return true
	})
	p.more = p.more || len(list) == p.limit || bytes >= examinedBytes
	return list, err
}

// add adds the changes in a row, times sign, to their owners' counts, and returns their number.
func (p *changePurge) add(row *engine.ChangeRow, sign int64) (n int64) {
	for packed, err := range engine.Unpack(row.Packed) {
		if c, damaged := unpackChange(packed); err == nil && damaged == nil {
			p.addOne(string(c.owner), sign, len(packed))
			n++
		}
	}
	return n
}

func (p *changePurge) addOne(owner string, sign int64, bytes int) {
	o := p.owners[owner]
	p.owners[owner] = ownerChanges{o.changes + sign, o.bytes + sign*int64(bytes)}
}

// addCounts stores the counts.
func (p *changePurge) addCounts() error {
	for _, owner := range slices.Sorted(maps.Keys(p.owners)) {
		o := p.owners[owner]
		err := p.Change(`INSERT INTO change_owners (owner, changes, bytes, looked) VALUES ($1, $2, $3, 0)
			ON CONFLICT (owner) DO UPDATE SET changes = change_owners.changes + excluded.changes, bytes = change_owners.bytes + excluded.bytes`,
			[]byte(owner), o.changes, o.bytes)
		if err == nil && o.changes < 0 {
			err = p.Change(`DELETE FROM change_owners WHERE owner = $1 AND changes <= 0`, []byte(owner))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// count counts the rows that were not counted yet.
func (p *changePurge) count() error {
	list, err := p.rows(`last > $1`, p.counted)
	if err != nil || len(list) == 0 {
		return err
	}
	for i := range list {
		p.add(&list[i], 1)
	}
	return p.Change(`UPDATE changes_state SET counted = $1`, list[len(list)-1].Last)
}

// purgeOld deletes the rows that are older than they are kept. The newest one stays, so that its
// number is not used again.
func (p *changePurge) purgeOld() error {
	until := p.Forgotten(p.bounds.Keep).UnixMicro()
	list, err := p.rows(`last <= $1 AND last < $2`, p.counted, p.end.Number)
	if err != nil {
		return err
	}
	old := 0
	for ; old < len(list) && list[old].At <= until; old++ {
		p.removed += p.add(&list[old], -1)
	}
	p.more = p.more && old == len(list)
	if old > 0 {
		p.purged = list[old-1].Last
		if err := p.Change(`DELETE FROM changes WHERE last <= $1`, p.purged); err != nil {
			return err
		}
		if err := p.Change(`UPDATE changes_state SET purged = $1`, p.purged); err != nil {
			return err
		}
	}
	_, err = p.Exec(`DELETE FROM change_floors WHERE account IN (SELECT account FROM change_floors WHERE floor <= $1 LIMIT $2)`, p.purged, int64(p.limit))
	return err
}

// evict removes an owner's oldest changes if it has too many. Readers of their accounts from before
// them learn that they are gone.
func (p *changePurge) evict() error {
	var reach, looked int64
	if _, err := p.Row(`SELECT COALESCE(MAX(last), 0) FROM changes WHERE last <= $1 AND last < $2`, engine.Args{p.counted, p.end.Number}, (*engine.Integer)(&reach)); err != nil {
		return err
	}
	var owner string
	var has ownerChanges
	found, err := p.Row(`SELECT owner, changes, bytes, looked FROM change_owners WHERE (changes > $1 OR bytes > $2) AND looked < $3 ORDER BY owner LIMIT 1`,
		engine.Args{p.bounds.Changes, p.bounds.Bytes, reach}, &owner, (*engine.Integer)(&has.changes), (*engine.Integer)(&has.bytes), (*engine.Integer)(&looked))
	if err != nil || !found {
		return err
	}
	list, err := p.rows(`last > $1 AND last <= $2`, looked, reach)
	if err != nil {
		return err
	}
	p.more = true // perhaps of another owner
	floors := map[string]int64{}
	for i := 0; i < len(list) && has.exceeds(p.bounds); i++ {
		row := &list[i]
		if looked, err = p.evictFrom(row, owner, &has, floors); err != nil {
			return err
		}
	}
	for _, account := range slices.Sorted(maps.Keys(floors)) {
		err := p.Change(`INSERT INTO change_floors (account, floor) VALUES ($1, $2)
			ON CONFLICT (account) DO UPDATE SET floor = CASE WHEN excluded.floor > change_floors.floor THEN excluded.floor ELSE change_floors.floor END`,
			[]byte(account), floors[account])
		if err != nil {
			return err
		}
	}
	if err := p.Change(`UPDATE change_owners SET looked = $2 WHERE owner = $1`, []byte(owner), looked); err != nil {
		return err
	}
	return p.Change(`UPDATE changes_state SET evicted = evicted + $1`, p.removed)
}

// evictFrom removes an owner's changes from a row while it has too many. It returns up to where
// the owner has none any more.
func (p *changePurge) evictFrom(row *engine.ChangeRow, owner string, has *ownerChanges, floors map[string]int64) (looked int64, err error) {
	left, kept, removed := engine.ChangeRun{}, false, p.removed
	number, err := row.Before()
	if err != nil {
		return 0, err
	}
	looked = row.Last
	for packed, err := range engine.Unpack(row.Packed) {
		if err != nil {
			return 0, err
		}
		number++
		c, err := unpackChange(packed)
		switch {
		case err != nil: // it was removed before
			packed = nil
		case string(c.owner) != owner:
			kept = true
		case !has.exceeds(p.bounds):
			kept, looked = true, min(looked, number-1)
		default:
			floors[string(c.account)] = number
			p.addOne(owner, -1, len(packed))
			has.changes, has.bytes = has.changes-1, has.bytes-int64(len(packed))
			p.removed++
			packed = nil
		}
		left.Add(packed)
	}
	switch {
	case p.removed == removed:
		return looked, nil
	case !kept:
		return looked, p.Change(`DELETE FROM changes WHERE last = $1`, row.Last)
	}
	row.Packed = left.Packed
	return looked, p.Change(`UPDATE changes SET packed = $2, row_sum = $3 WHERE last = $1`, row.Last, row.Packed, row.Sum())
}

// ChangeTotals implements metastore.Changes.
func (s *Metastore) ChangeTotals(ctx context.Context) (sum metastore.ChangeTotals, err error) {
	err = s.in.Read(ctx, func(t tx) error {
		_, err := t.Row(`SELECT (SELECT CAST(COALESCE(SUM(changes), 0) AS BIGINT) FROM change_owners), (SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM change_owners),
				(SELECT at FROM changes ORDER BY last LIMIT 1), evicted FROM changes_state`, nil,
			(*engine.Integer)(&sum.Changes), (*engine.Integer)(&sum.Bytes), (*engine.Instant)(&sum.Oldest), (*engine.Integer)(&sum.Evicted))
		return err
	})
	return sum, err
}
