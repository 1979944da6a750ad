package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"sluice/database"
)

// KeepTime implements database.Maintenance.
func (db *DB) KeepTime(ctx context.Context) error {
	return db.Write(ctx, func(t *Tx) error {
		t.Free = true
		k := db.clock.keep()
		if k.Waited > 0 || !k.Shown.IsZero() {
			last, err := readKeptTime(t)
			if err != nil {
				return err
			}
			if last.Shown.IsZero() && last.Known.Sub(k.Shown).Abs() <= restartGap {
				return nil // the time is known to another process, and only in doubt for this one
			}
		}
		text, err := json.Marshal(k)
		if err != nil {
			return fmt.Errorf("sqlstore: time to keep: %w", err)
		}
		_, err = t.Exec(`INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
			[]byte(database.TimeProperty), text)
		return err
	})
}

// beginTime lets the clock judge the time by the keptTime in the database. It is called once,
// before other calls.
func (db *DB) beginTime(ctx context.Context) error {
	k, err := ResultOf(ctx, db.eng.Read, readKeptTime)
	if err == nil {
		db.clock.begin(k)
	}
	return err
}

// readKeptTime returns the keptTime, or zero if there is none.
func readKeptTime(t *Tx) (keptTime, error) {
	var k keptTime
	var text []byte
	found, err := t.Row(`SELECT value FROM facts WHERE name = $1`, Args{[]byte(database.TimeProperty)}, &text)
	if err != nil || !found {
		return k, err
	}
	if err := json.Unmarshal(text, &k); err != nil {
		return k, fmt.Errorf("sqlstore: the property %s is %q, which is not a time: %w", database.TimeProperty, text, err)
	}
	return k, nil
}
