package meta

import (
	"context"
	"encoding/json"
	"time"

	"sluice/access/actions"
	"sluice/database/sqlstore/internal/acts"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/usage"
	"sluice/internal/task"
	"sluice/metastore"
)

// progress is how far a changed setting was applied to an account's versions: those behind the name
// After in the account Kept. counted are the versions there that have the blob's name.
type progress struct {
	Kept, After []byte
	counted
}

// Keeping implements metastore.Versions.
func (s *Metastore) Keeping(ctx context.Context, account string) (metastore.Keeping, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t tx) (metastore.Keeping, error) { return t.keeping([]byte(account)) })
}

// ListKeeping implements metastore.Versions.
func (s *Metastore) ListKeeping(ctx context.Context, after string, limit int) ([]metastore.AccountKeeping, error) {
	return engine.ResultOf(ctx, s.in.ReadList, func(t tx) (list []metastore.AccountKeeping, err error) {
		var r keepingRow
		err = t.Each(`SELECT `+keepingColumns+` FROM keeping WHERE account > $1 ORDER BY account LIMIT ($2 + 0)`, engine.Args{[]byte(after), int64(limit)}, r.fields(), func() error {
			k, err := r.keeping()
			list = append(list, k)
			return err
		})
		return list, err
	})
}

// SetKeeping implements metastore.Versions.
func (s *Metastore) SetKeeping(ctx context.Context, account string, change func(*metastore.Keeping) (*actions.Act, error)) (metastore.Keeping, error) {
	return engine.ResultOf(ctx, s.in.Write, func(t tx) (metastore.Keeping, error) {
		was, err := t.keeping([]byte(account))
		if err != nil {
			return was, err
		}
		is := was
		act, err := change(&is)
		if err == nil {
			err = acts.Record(t.Tx, act)
		}
		if err != nil {
			return was, err
		}
		if is.State == metastore.KeepNever && was.State != metastore.KeepNever {
			is.State = metastore.KeepOff
		}
		if was.Locks && !is.Locks || is.Locks && is.State != metastore.KeepOn {
			return was, metastore.ErrLocksStay
		}
		if err := is.CheckLocks(); err != nil {
			return was, err
		}
		is.For = is.For.Truncate(time.Microsecond)
		treated := is.For == was.For && is.Most == was.Most
		unlocked := is.Locks == was.Locks && lockSettingOf(&is) == lockSettingOf(&was)
		if is.State == metastore.KeepNever || is.State == was.State && treated && unlocked {
			return was, nil
		}
		is.Changed = t.Now
		if is.Pending = was.Pending || was.State != metastore.KeepNever && !treated; !treated {
			is.Handled = 0
		}
		var left any
		if is.Pending {
			left, err = json.Marshal(progress{Kept: []byte(metastore.KeptOf(account))})
		}
		state, locks := int64(is.State), any(nil)
		if err == nil && is.Locks {
			state = withLocks
			locks, err = json.Marshal(lockSettingOf(&is))
		}
		if err != nil {
			return was, err
		}
		return is, t.Change(`INSERT INTO keeping (account, state, period, most, changed, progress, handled, locks) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
			ON CONFLICT (account) DO UPDATE SET state = $2, period = $3, most = $4, changed = $5, progress = $6, handled = $7, locks = $8`,
			[]byte(account), state, is.For.Microseconds(), int64(is.Most), engine.Micros(is.Changed), left, is.Handled, locks)
	})
}

// writersLeft is the time after which no transaction runs any more that has read a setting before
// it was changed. It exceeds the time that a transaction may take.
const writersLeft = time.Minute

// ApplyKeeping implements metastore.Versions.
func (s *Metastore) ApplyKeeping(ctx context.Context, limit int) (int, error) {
	return engine.ResultOf(ctx, s.in.Write, func(t tx) (int, error) {
		if waits, err := t.waits(task.Versions); err != nil || waits {
			return 0, err
		}
		var r keepingRow
		found, err := t.Row(`SELECT `+keepingColumns+` FROM keeping WHERE progress IS NOT NULL AND changed <= $1 ORDER BY changed LIMIT 1`,
			engine.Args{t.Forgotten(writersLeft).UnixMicro()}, r.fields()...)
		if err != nil || !found {
			return 0, err
		}
		var at progress
		if err := json.Unmarshal(r.progress, &at); err != nil {
			return 0, err
		}
		n, err := t.apply(&r, &at, limit)
		if err != nil {
			return 0, err
		}
		var left any
		markers := metastore.KeptOf(metastore.MarkersOf(r.Account))
		switch {
		case n == limit:
			left, err = json.Marshal(at)
		case string(at.Kept) != markers:
			left, err = json.Marshal(progress{Kept: []byte(markers)})
		}
		if err != nil {
			return 0, err
		}
		return max(n, 1), t.Change(`UPDATE keeping SET progress = $2, handled = handled + $3 WHERE account = $1`, []byte(r.Account), left, int64(n))
	})
}

// apply applies a setting to up to limit versions from at on, and returns their number.
func (t tx) apply(r *keepingRow, at *progress, limit int) (int, error) {
	kept := string(at.Kept)
	page, err := t.keptAfter(kept, string(at.After), limit)
	if err != nil {
		return 0, err
	}
	last, _, _ := metastore.KeptBlob(kept, string(at.After))
	var deltas []usage.Delta
	for i := range page {
		b := &page[i]
		of, _, _ := metastore.KeptBlob(kept, b.Name)
		if of != last {
			at.counted, last = counted{}, of
		}
		at.After = []byte(b.Name)
		switch {
		case b.Since.IsZero(): // it is damaged
		case r.rule.most() > 0 && at.exceeds(b, r.rule.most()):
			deltas, err = t.surplus(b, deltas)
		default:
			err = t.keepUntil(b, r.rule.until(b.Since))
		}
		if err != nil {
			return 0, err
		}
	}
	return len(page), usage.Record(t.Tx, deltas...)
}

// keptAfter returns up to limit rows of an account behind a name, in the order of names. Damaged
// ones have only a Name.
func (t tx) keptAfter(account, after string, limit int) (list []storedBlob, err error) {
	names := t.listNames
	if !t.Embedded() {
		names = t.listByStatement
	}
	page, err := names(listing{metastore.ListQuery{Account: account, After: after, Limit: limit, Bytes: 1 << 30}, after + "\x00", -1 << 63})
	for i := range page.Blobs {
		b, found, err := t.blob(account, page.Blobs[i].Name)
		if found, err = undamaged(found, err); err != nil {
			return nil, err
		}
		if !found {
			b = storedBlob{Blob: metastore.Blob{Name: page.Blobs[i].Name}}
		}
		list = append(list, b)
	}
	return list, err
}
