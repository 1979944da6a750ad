package meta

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// changed records that a stored blob or version has changed, and reports whether it has. Markers,
// and their versions, have no changes.
func (t tx) changed(kind metastore.ChangeKind, b *metastore.Blob) bool {
	n := metastore.BlobName{Account: b.Account, Name: b.Name}
	if metastore.IsKept(n.Account) {
		n, _, _ = metastore.KeptBlob(n.Account, n.Name)
	}
	if metastore.IsHidden(n.Account) {
		return false
	}
	t.EndChange(appendChange(t.BeginChange(), kind, t.Now, n, b))
	return true
}

// feedState is the feed's state.
type feedState struct {
	end                   metastore.FeedPosition
	counted, purged, gone int64 // columns of changes_state, and the floor
}

// feedState returns the state with an account's floor, or with the greatest.
func (t tx) feedState(account string, all bool) (s feedState, err error) {
	query, in := feedQuery+`(SELECT floor FROM change_floors WHERE account = $1)`+feedTables, engine.Args{[]byte(account)}
	if all {
		query, in = feedQuery+`(SELECT MAX(floor) FROM change_floors)`+feedTables, nil
	}
	_, err = t.Row(query, in, (*engine.Integer)(&s.end.Generation), (*engine.Integer)(&s.counted), (*engine.Integer)(&s.purged),
		(*engine.Integer)(&s.end.Number), (*engine.Integer)(&s.gone))
	return s, err
}

const (
	feedQuery  = `SELECT h.generation, s.counted, s.purged, (SELECT COALESCE(MAX(last), 0) FROM changes), COALESCE(`
	feedTables = `, 0) FROM history h, changes_state s`
)

// The greatest size that a call reads, besides metastore.MaxExamined.
const examinedBytes = 1 << 20

// changeRows calls each with the rows that meet a condition, in order, until it returns false or
// they have examinedBytes. damaged is set for a row that does not match its checksum.
func (t tx) changeRows(condition string, in engine.Args, limit int, each func(row *engine.ChangeRow, damaged bool) bool) error {
	query := fmt.Sprintf(`SELECT `+engine.ChangeColumns+` FROM changes WHERE %s ORDER BY last LIMIT ($%d + 0)`, condition, len(in)+1)
	if !t.Embedded() { // it sends all rows
		query = fmt.Sprintf(`SELECT `+engine.ChangeColumns+` FROM (SELECT `+engine.ChangeColumns+`, SUM(length(packed)) OVER (ORDER BY last) - length(packed) AS before
			FROM (%s) page) summed WHERE before < %d ORDER BY last`, query, examinedBytes)
	}
	rows, err := t.Open(query, append(in, int64(limit)))
	if err != nil {
		return err
	}
	var row engine.ChangeRow
	var sum engine.StoredSum
	for bytes, more := 0, true; more && bytes < examinedBytes; bytes += len(row.Packed) {
		if more, err = rows.Next(engine.Args{(*engine.Integer)(&row.Last), (*engine.Integer)(&row.At), &row.Packed, &sum}); err != nil || !more {
			break
		}
		more = each(&row, sum.Differs(row.Sum()))
	}
	return cmp.Or(rows.Close(), err)
}

// changeList collects a page of changes.
type changeList struct {
	metastore.ChangeQuery
	left     engine.Bound
	examined int
	list     []metastore.Change
	at       metastore.FeedPosition // behind the last change that was looked at
	damaged  bool
}

// row adds a row's selected changes to the page, and reports whether another row is to be read.
func (l *changeList) row(row *engine.ChangeRow, damaged bool) bool {
	number, err := row.Before()
	if l.damaged = damaged || err != nil; l.damaged {
		return false
	}
	for packed, err := range engine.Unpack(row.Packed) {
		if number++; number <= l.at.Number {
			continue
		}
		if l.examined++; l.examined > metastore.MaxExamined || err != nil {
			return false
		}
		here := metastore.FeedPosition{Generation: l.at.Generation, Number: number}
		if len(packed) > 0 && !l.add(packed, here) {
			return false
		}
		l.at = here
	}
	return true
}

// add adds a change if it is selected. It returns false, and l.damaged, if it cannot be read, or if
// there is no room.
func (l *changeList) add(packed []byte, at metastore.FeedPosition) bool {
	c, err := unpackChange(packed)
	if err != nil {
		l.damaged = true
		return false
	}
	if !l.Kinds.Selects(c.kind) || !l.All && string(c.account) != l.Account || !bytes.HasPrefix(c.name, []byte(l.Prefix)) {
		return true
	}
	if !l.left.Take(database.EntryCharge + int64(len(c.account)+len(c.name)+len(c.contentType))) {
		return false
	}
	l.list = append(l.list, c.change(at))
	return true
}

// ListChanges implements metastore.Changes. A damaged row's changes are gone.
func (s *Metastore) ListChanges(ctx context.Context, q metastore.ChangeQuery) (metastore.ChangePage, error) {
	if err := s.numberChanges(ctx); err != nil {
		return metastore.ChangePage{}, err
	}
	return engine.ResultOf(ctx, s.in.SnapshotList, func(t tx) (metastore.ChangePage, error) {
		state, err := t.feedState(q.Account, q.All)
		if err != nil {
			return metastore.ChangePage{}, err
		}
		gone := &metastore.ChangesGoneError{Restart: state.end}
		if q.After.Generation != state.end.Generation || q.After.Number > state.end.Number || q.After.Number < max(state.purged, state.gone) {
			return metastore.ChangePage{}, gone
		}
		l := changeList{ChangeQuery: q, left: engine.NewBound(q.Limit, q.Bytes), at: q.After}
		if err := t.changeRows(`last > $1`, engine.Args{q.After.Number}, metastore.MaxExamined, l.row); err != nil {
			return metastore.ChangePage{}, err
		}
		if l.damaged && l.at == q.After {
			return metastore.ChangePage{}, gone
		}
		return metastore.ChangePage{Changes: l.list, Next: l.at, More: l.at != state.end}, nil
	})
}

// FeedEnd implements metastore.Changes.
func (s *Metastore) FeedEnd(ctx context.Context) (metastore.FeedPosition, error) {
	if err := s.numberChanges(ctx); err != nil {
		return metastore.FeedPosition{}, err
	}
	return engine.ResultOf(ctx, s.in.Read, func(t tx) (metastore.FeedPosition, error) {
		state, err := t.feedState("", false)
		return state.end, err
	})
}

// FeedStart implements metastore.Changes.
func (s *Metastore) FeedStart(ctx context.Context, account string, all bool) (metastore.FeedPosition, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t tx) (metastore.FeedPosition, error) {
		state, err := t.feedState(account, all)
		return metastore.FeedPosition{Generation: state.end.Generation, Number: max(state.purged, state.gone)}, err
	})
}

// queueStep is how many transactions' changes get their numbers in a step at most. A step ends with
// the transaction with which they have examinedBytes.
const queueStep = 1000

// numberChanges moves the changes in the queue of PostgreSQL to the table changes. A reader sees a
// change only there, where no smaller number can be added any more.
func (s *Metastore) numberChanges(ctx context.Context) error {
	if s.db.OneWriter() {
		return nil // the writer has numbered them
	}
	for {
		var one engine.Integer
		queued, err := engine.ResultOf(ctx, s.in.Read, func(t tx) (bool, error) {
			return t.Row(`SELECT 1 FROM changes_queue ORDER BY id LIMIT 1`, nil, &one)
		})
		if err != nil || !queued {
			return err
		}
		more, err := engine.ResultOf(ctx, s.in.WriteLocked, tx.numberStep)
		if err != nil || !more {
			return err
		}
	}
}

// numberStep moves changes from the queue, and reports whether more may follow.
func (t tx) numberStep() (more bool, err error) {
	if err := t.Lock("changes"); err != nil {
		return false, err
	}
	t.Changed = true // Collect does not set it
	type queued struct {
		id     int64
		packed []byte
	}
	var one queued
	list, err := engine.Collect(t.Tx, `DELETE FROM changes_queue WHERE id IN (SELECT id FROM
		(SELECT id, SUM(length(packed)) OVER (ORDER BY id) - length(packed) AS before FROM
			(SELECT id, packed FROM changes_queue ORDER BY id LIMIT $1) oldest) summed WHERE before < $2) RETURNING id, packed`,
		engine.Args{int64(queueStep), int64(examinedBytes)}, engine.Args{(*engine.Integer)(&one.id), &one.packed}, &one)
	if err != nil {
		return false, err
	}
	slices.SortFunc(list, func(a, b queued) int { return cmp.Compare(a.id, b.id) })
	run := engine.ChangeRun{At: t.Now.UnixMicro()}
	for _, q := range list {
		if err := run.Append(q.packed); err != nil {
			return false, err
		}
	}
	more = len(list) == queueStep || len(run.Packed) >= examinedBytes
	var last int64
	if _, err := t.Row(`SELECT COALESCE(MAX(last), 0) FROM changes`, nil, (*engine.Integer)(&last)); err != nil {
		return false, err
	}
	for row, ok := run.Cut(last); ok; row, ok = run.Cut(last) {
		if err := t.Change(`INSERT INTO changes (`+engine.ChangeColumns+`) VALUES ($1, $2, $3, $4)`, row.Values()...); err != nil {
			return false, err
		}
		last = row.Last
	}
	return more, nil
}
