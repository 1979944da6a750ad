package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sluice/database"
)

// KeepTime implements database.Maintenance. If it adopts the time of a clock that was set by more
// than restartGap while a process ran, it calls adopted in the transaction, with the difference.
func (db *DB) KeepTime(ctx context.Context, adopted func(t *Tx, by time.Duration) error) error {
	var kept keptTime
	err := db.Write(ctx, func(t *Tx) error {
		t.Free = true
		last, err := readKeptTime(t)
		if err != nil {
			return err
		}
		k := db.clock.keep()
		if !k.Shown.IsZero() && last.Shown.IsZero() && last.Known.Sub(k.Shown).Abs() <= restartGap {
			kept = last
			return nil // the time is known to another process, and only in doubt for this one
		}
		if by := k.adopted(&last); by != 0 {
			if err := adopted(t, by); err != nil {
				return err
			}
		}
		k.Locks = last.locksAt(&k, db.steady())
		kept = k
		text, err := json.Marshal(k)
		if err != nil {
			return fmt.Errorf("sqlstore: time to keep: %w", err)
		}
		_, err = t.Exec(`INSERT INTO facts (name, value) VALUES ($1, $2), ($3, $4) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
			[]byte(database.TimeProperty), text, []byte(database.LocksProperty), []byte(k.Locks.Format(time.RFC3339Nano)))
		return err
	})
	if err == nil {
		db.kept.Store(&kept)
	}
	return err
}

// ClockWasSet reports whether the clock was set while a process ran, and KeepTime has not yet kept
// whether the time was adopted.
func (t *Tx) ClockWasSet() (bool, error) {
	k, err := readKeptTime(t)
	return k.Ran, err
}

// beginTime lets the clock judge the time by the keptTime in the database. It is called once,
// before other calls.
func (db *DB) beginTime(ctx context.Context) error {
	k, err := ResultOf(ctx, db.eng.Read, readKeptTime)
	if err == nil {
		db.kept.Store(&k)
		db.clock.begin(k)
	}
	return err
}

// readKeptTime returns the keptTime, or zero if there is none.
func readKeptTime(t *Tx) (k keptTime, err error) {
	var name string
	var text []byte
	err = t.Each(`SELECT name, value FROM facts WHERE name = $1 OR name = $2`, Args{[]byte(database.TimeProperty), []byte(database.LocksProperty)}, Args{&name, &text}, func() error {
		if name == database.LocksProperty {
			return k.parseLocks(text)
		}
		if err := json.Unmarshal(text, &k); err != nil {
			return fmt.Errorf("sqlstore: the property %s is %q, which is not a time: %w", database.TimeProperty, text, err)
		}
		return nil
	})
	return k, err
}
