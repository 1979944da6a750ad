package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/bytestore"
	"sluice/database"
)

// step compares the database with the records of this process and of the bytes, and performs at
// most one step towards a record. again reports that it did, or that the database has changed.
func (h *History) step(ctx context.Context) (again bool, err error) {
	now, err := h.look(ctx)
	if err != nil {
		return false, err
	}
	newest, due := now.Newest, h.due()
	if !h.opt.Shared && h.compared && !due && newest == now.Outside {
		return false, nil
	}
	next := newest.Number + 1
	// The claim is read first: a node that removes records removes ours before the claim.
	claimed := false
	if h.opt.Shared && newest.Number > 0 {
		if claimed, err = exists(ctx, h.bytes, claimName(next)); err != nil {
			return false, err
		}
	}
	if again, err := h.compare(ctx, now); again || err != nil {
		return again, err
	}
	switch {
	case newest.Number > 0 && newest != now.Outside:
		return true, h.publish(ctx, now)
	case newest.Number > h.started:
		h.holder = true
	}
	switch {
	case due && (!h.opt.Shared || h.holder && !claimed), h.opt.Shared && newest.Number == 0:
		return true, h.add(ctx, now, newest.Owner)
	case !h.opt.Shared, h.holder && !claimed:
		return false, nil
	case !h.holder && h.candidate != next:
		return true, h.stand(ctx, next)
	case !claimed:
		_, err := put(ctx, h.bytes, claimName(next), "")
		return true, err
	}
	return h.answer(ctx, now, next)
}

// answer adds the next record, to which there is a claim, if this database may.
func (h *History) answer(ctx context.Context, now database.HistoryState, next int64) (again bool, err error) {
	if later, found, err := readRecord(ctx, h.bytes, next); err != nil || found {
		if err != nil {
			return false, err
		}
		return h.lacked(ctx, now, later)
	}
	if h.claimed.IsZero() {
		h.claimed = time.Now()
	}
	if !h.holder {
		if elapsed(h.claimed) < fenceWait {
			return false, errWaits
		}
		if rival, err := hasRival(ctx, h.bytes, next, h.name); err != nil {
			return false, err
		} else if rival {
			return false, refuse("a copy of this database, or its original, was started while no node ran that holds the bytes, "+
				"and both have %d records, so that neither is preferred", now.Newest.Number)
		}
	}
	h.tidy = true
	return true, h.add(ctx, now, "")
}

// look reads the database's state. It returns database.ErrSetBack if the instance was set back, as
// far as that is known without the bytes.
func (h *History) look(ctx context.Context) (now database.HistoryState, err error) {
	if now, err = h.db.History(ctx); err != nil {
		return now, err
	}
	if h.started < 0 {
		h.started = now.Newest.Number
	}
	if before := h.generation.Swap(now.Generation); before > 0 && now.Generation > before {
		h.db.ForgetCommits() // an operator has begun a generation, and knows that they are lost
		h.reported, h.recorded = false, []checkpoint{{done: h.opt.Done()}}
	}
	h.kept.Store(&now.Kept)
	how, err := h.forgotten(ctx, now)
	if err == nil && (how != "" || now.SetBack != "") {
		err = h.notice(ctx, now, how)
	}
	if err != nil {
		return now, err
	}
	if now.Newest != h.seen.Newest {
		h.claimed = time.Time{}
	}
	h.seen = now
	return now, nil
}

// due reports whether a record must follow the latest commits.
func (h *History) due() bool {
	return h.committed.Load() && (h.ending || elapsed(h.added) >= Every)
}

// compare compares the records that are outside the database with those beside the bytes. again
// reports that the database has changed.
func (h *History) compare(ctx context.Context, now database.HistoryState) (again bool, err error) {
	found := false
	if now.Outside.Number > 0 {
		var r record
		if r, found, err = readRecord(ctx, h.bytes, now.Outside.Number); err != nil {
			return false, err
		}
		if found && r.Record != now.Outside {
			return h.lacked(ctx, now, r)
		}
	}
	if h.compared && (found || now.Outside.Number == 0) {
		return false, nil
	}
	latest, _, err := latestRecord(ctx, h.bytes)
	switch {
	case err != nil:
		return false, err
	case latest.Number > now.Newest.Number || !found && now.Outside.Number > 0 && latest.Number > now.Outside.Number:
		if again, err := h.lacked(ctx, now, latest); !again || err != nil {
			return again, err
		}
		after, err := h.db.History(ctx)
		if err != nil || after.Newest != now.Newest {
			return true, err
		}
	}
	if !found && now.Outside.Number > 0 {
		return h.missing(ctx, now)
	}
	h.compared, h.added = true, time.Now()
	return false, nil
}

// missing notices that the bytes lack the record that the database knows to be there, unless
// another node has added later ones and removed it.
func (h *History) missing(ctx context.Context, before database.HistoryState) (again bool, err error) {
	now, err := h.db.History(ctx)
	if err != nil || now.Outside != before.Outside || now.Generation != before.Generation {
		return true, err
	}
	return false, h.notice(ctx, now, fmt.Sprintf("the bytes lack record %d, which was beside them", before.Outside.Number))
}

// lacked is called with a record beside the bytes that the database seems to lack. It returns
// ErrFenced or database.ErrSetBack, unless a node of this database has added it meanwhile.
func (h *History) lacked(ctx context.Context, now database.HistoryState, r record) (again bool, err error) {
	list, err := h.db.LackedRecords(ctx, []database.Record{r.Record})
	if err != nil || len(list) == 0 {
		return true, err
	}
	if h.opt.Shared && r.Owner != now.Newest.Owner && r.Owner != "" {
		return false, refuse("record %d belongs to a copy of this database, or to its original; this one has %d records",
			r.Number, now.Newest.Number)
	}
	return false, h.notice(ctx, now, lackedText(r, now.Newest.Number))
}

// add adds the record that follows the newest one. An empty owner is a new one.
func (h *History) add(ctx context.Context, now database.HistoryState, owner string) error {
	done, committed := h.opt.Done(), h.committed.Load()
	h.committed.Store(false) // a later commit may not precede the record
	r, err := h.db.AddRecord(ctx, now.Generation, now.Newest, owner)
	if err != nil {
		h.committed.Store(committed || h.committed.Load())
		if errors.Is(err, database.ErrNotFound) {
			return nil // another node was first, or has noticed something
		}
		return err
	}
	h.added = time.Now()
	h.recorded = append(h.recorded, checkpoint{r, done})
	h.recorded = h.recorded[max(0, len(h.recorded)-checkpoints):]
	return nil
}

// publish puts the newest record beside the bytes, unless it is there, and sometimes removes old
// ones.
func (h *History) publish(ctx context.Context, now database.HistoryState) error {
	r := record{now.Generation, now.Newest}
	exists, err := put(ctx, h.bytes, recordName(r.Number), r.String())
	if err != nil {
		return err
	}
	if exists {
		first, found, err := readRecord(ctx, h.bytes, r.Number)
		if err != nil || found && first.Record != r.Record {
			if err == nil {
				_, err = h.lacked(ctx, now, first)
			}
			return err
		}
	}
	if err := h.db.RecordOutside(ctx, now.Generation, r.Record); err != nil {
		return err
	}
	if !h.tidy && r.Number%recordsKept != 0 {
		return nil
	}
	h.tidy = false
	return h.clean(ctx, r.Number)
}

// clean removes old records, and the claims to those that were added, unless there are later ones.
func (h *History) clean(ctx context.Context, number int64) error {
	var latest int64
	var old []bytestore.Name
	err := list(ctx, h.bytes, prefix, func(o bytestore.Object, n int64, rest string) {
		if rest == "" {
			latest = max(latest, n)
		}
		if n+recordsKept <= number || rest != "" && rest != "-claim" && n <= number {
			old = append(old, o.Name)
		}
	})
	if err != nil || latest > number {
		return err
	}
	for _, name := range old { // the oldest first, so that a database that was passed misses its own record first
		if err := h.bytes.Delete(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// stand makes the database a candidate for a record.
func (h *History) stand(ctx context.Context, number int64) (err error) {
	if h.name, err = nameOf(ctx, h.db, number); err != nil {
		return err
	}
	if _, err = put(ctx, h.bytes, candidateName(number, h.name), ""); err == nil {
		h.candidate = number
	}
	return err
}

// exists reports whether there is an object.
func exists(ctx context.Context, bytes bytestore.Store, name bytestore.Name) (bool, error) {
	r, err := bytes.Open(ctx, name, 0, 0)
	if errors.Is(err, bytestore.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, r.Close()
}

// refuse returns ErrFenced with the reason and the actions that an operator can take.
func refuse(reason string, values ...any) error {
	return fmt.Errorf("%w: %s; this one deletes and writes nothing. "+
		"Stop the one that is not wanted; to continue with this one, stop all nodes of both, run sluice recover for it and start it",
		ErrFenced, fmt.Sprintf(reason, values...))
}
