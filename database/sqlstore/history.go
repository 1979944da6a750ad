package sqlstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
)

// History implements database.History.
func (s *Store) History(ctx context.Context) (database.HistoryState, error) {
	return engine.ResultOf(ctx, s.in.Read, history)
}

func history(t storeTx) (h database.HistoryState, err error) {
	fields := engine.Args{(*engine.Integer)(&h.Generation), (*engine.OptionalText)(&h.SetBack), (*engine.Instant)(&h.Kept.MadeBefore), (*engine.Instant)(&h.Kept.Until)}
	for _, r := range []*database.Record{&h.Newest, &h.Outside} { // their columns may be NULL
		fields = append(fields, (*engine.Integer)(&r.Number), (*engine.OptionalText)(&r.Owner), (*engine.OptionalText)(&r.Nonce))
	}
	_, err = t.Row(`SELECT h.generation, h.set_back, h.kept_before, h.kept_until, COALESCE(n.number, 0), n.owner, n.nonce, COALESCE(o.number, 0), o.owner, o.nonce FROM history h
		LEFT JOIN records n ON n.number = (SELECT MAX(number) FROM records)
		LEFT JOIN records o ON o.number = (SELECT MAX(number) FROM records WHERE outside = 1)`, nil, fields...)
	return h, err
}

// AddRecord implements database.History.
func (s *Store) AddRecord(ctx context.Context, generation int64, after database.Record, owner string) (database.Record, error) {
	return engine.ResultOf(ctx, s.in.WriteLocked, func(t storeTx) (r database.Record, err error) {
		t.Free = true
		if _, err := lockHistory(t, generation); err != nil {
			return r, err
		}
		now, err := history(t)
		if err == nil && (now.Generation != generation || now.SetBack != "" || now.Newest != after || now.Outside != after) {
			err = fmt.Errorf("record %d of generation %d: %w", after.Number, generation, database.ErrNotFound)
		}
		if err != nil {
			return r, err
		}
		return insertRecord(t, after.Number+1, owner)
	})
}

// lockHistory excludes concurrent changes of the history. It reports whether the database has the
// generation.
func lockHistory(t storeTx, generation int64) (bool, error) {
	var ours int64
	return t.Row(`SELECT generation FROM history WHERE generation = $1`+t.ForUpdate(), engine.Args{generation}, (*engine.Integer)(&ours))
}

// insertRecord inserts a record, and deletes those that are not retained.
func insertRecord(t storeTx, number int64, owner string) (database.Record, error) {
	text := func() string { return strings.ToLower(rand.Text()[:database.OwnerLen]) }
	r := database.Record{Number: number, Owner: cmp.Or(owner, text()), Nonce: text()}
	if err := t.Change(`INSERT INTO records (number, owner, nonce, outside) VALUES ($1, $2, $3, 0)`, r.Number, []byte(r.Owner), []byte(r.Nonce)); err != nil {
		return r, err
	}
	_, err := t.Exec(`DELETE FROM records WHERE number <= $1`, number-database.RecordsRetained)
	return r, err
}

// RecordOutside implements database.History.
func (s *Store) RecordOutside(ctx context.Context, generation int64, r database.Record) error {
	return s.in.WriteLocked(ctx, func(t storeTx) error {
		t.Free = true
		if ours, err := lockHistory(t, generation); err != nil || !ours {
			return err
		}
		_, err := t.Exec(`UPDATE records SET outside = 1 WHERE number = $1 AND owner = $2 AND nonce = $3`, r.Number, []byte(r.Owner), []byte(r.Nonce))
		return err
	})
}

// LackedRecords implements database.History.
func (s *Store) LackedRecords(ctx context.Context, records []database.Record) ([]database.Record, error) {
	return engine.ResultOf(ctx, s.in.Snapshot, func(t storeTx) ([]database.Record, error) {
		var oldest int64
		if _, err := t.Row(`SELECT COALESCE(MIN(number), 1) FROM records`, nil, (*engine.Integer)(&oldest)); err != nil {
			return nil, err
		}
		var lacked []database.Record
		for _, r := range records {
			if r.Number < oldest {
				continue
			}
			var number int64
			has, err := t.Row(`SELECT number FROM records WHERE number = $1 AND owner = $2 AND nonce = $3`,
				engine.Args{r.Number, []byte(r.Owner), []byte(r.Nonce)}, (*engine.Integer)(&number))
			if err != nil {
				return nil, err
			}
			if !has {
				lacked = append(lacked, r)
			}
		}
		return lacked, nil
	})
}

// RecordSetback implements database.History.
func (s *Store) RecordSetback(ctx context.Context, generation int64, how string) error {
	return s.in.WriteLocked(ctx, func(t storeTx) error {
		t.Free = true
		var text string
		found, err := t.Row(`SELECT COALESCE(set_back, $2) FROM history WHERE generation = $1`+t.ForUpdate(), engine.Args{generation, []byte{}}, &text)
		if err != nil || !found {
			return err
		}
		lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
		if slices.Contains(lines, how) || len(lines) >= database.MaxSetbackLines {
			return nil
		}
		_, err = t.Exec(`UPDATE history SET set_back = $2 WHERE generation = $1`, generation, []byte(strings.Join(append(lines, how), "\n")))
		return err
	})
}

// BeginGeneration implements database.History.
func (s *Store) BeginGeneration(ctx context.Context, old, next, number int64, kept database.KeptObjects, reason string) error {
	return s.in.WriteLocked(ctx, func(t storeTx) error {
		t.Free = true
		n, err := t.Exec(`UPDATE history SET generation = $2, set_back = NULL, kept_before = $3, kept_until = $4 WHERE generation = $1 AND $2 > $1`,
			old, next, engine.Micros(kept.MadeBefore), engine.Micros(kept.Until))
		if err == nil && n == 0 {
			err = fmt.Errorf("generation %d: %w", old, database.ErrNotFound)
		}
		if err == nil {
			err = pauseWaiting(t.Tx, reason)
		}
		if err != nil {
			return err
		}
		if _, err := t.Exec(`UPDATE records SET outside = 0`); err != nil || number == 0 {
			return err
		}
		_, err = insertRecord(t, number, "")
		return err
	})
}

// ReleaseObjects implements database.History.
func (s *Store) ReleaseObjects(ctx context.Context) error {
	return s.in.WriteLocked(ctx, func(t storeTx) error {
		t.Free = true
		_, err := t.Exec(`UPDATE history SET kept_before = NULL, kept_until = NULL`)
		return err
	})
}

// LostCommits implements database.History.
func (s *Store) LostCommits() error { return s.db.LostCommits() }

// ForgetCommits implements database.History.
func (s *Store) ForgetCommits() { s.db.ForgetCommits() }
