package sqlstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
)

// Past implements database.Past.
func (s *Store) Past(ctx context.Context) (database.PastState, error) {
	return engine.ResultOf(ctx, s.read, func(t storeTx) (p database.PastState, err error) {
		newest, outside := markFields(&p.Newest), markFields(&p.Outside)
		_, err = t.Row(`SELECT p.generation, p.set_back, p.kept_before, p.kept_until, COALESCE(n.sequence, 0), n.nonce, COALESCE(o.sequence, 0), o.nonce FROM past p
			LEFT JOIN marks n ON n.sequence = (SELECT MAX(sequence) FROM marks)
			LEFT JOIN marks o ON o.sequence = (SELECT MAX(sequence) FROM marks WHERE outside = 1)`, nil,
			(*engine.Integer)(&p.Generation), (*engine.OptionalText)(&p.SetBack),
			(*engine.Instant)(&p.Kept.MadeBefore), (*engine.Instant)(&p.Kept.Until), newest[0], newest[1], outside[0], outside[1])
		return p, err
	})
}

// markFields are the destinations of a mark's columns, which may be NULL.
func markFields(m *database.Mark) engine.Args {
	return engine.Args{(*engine.Integer)(&m.Sequence), (*engine.OptionalText)(&m.Nonce)}
}

// AddMark implements database.Past.
func (s *Store) AddMark(ctx context.Context, generation int64) (database.Mark, error) {
	return engine.ResultOf(ctx, s.writeLocked, func(t storeTx) (m database.Mark, err error) {
		t.Free = true
		var ours int64
		found, err := t.Row(`SELECT generation FROM past WHERE generation = $1 AND set_back IS NULL`+t.ForUpdate(), engine.Args{generation}, (*engine.Integer)(&ours))
		if err == nil && !found {
			err = fmt.Errorf("generation %d: %w", generation, database.ErrNotFound)
		}
		if err != nil {
			return m, err
		}
		if _, err := t.Row(`SELECT COALESCE(MAX(sequence), 0) + 1 FROM marks`, nil, (*engine.Integer)(&m.Sequence)); err != nil {
			return m, err
		}
		m.Nonce = strings.ToLower(rand.Text()[:database.MarkNonceLen])
		if err := t.Change(`INSERT INTO marks (sequence, nonce, outside) VALUES ($1, $2, 0)`, m.Sequence, []byte(m.Nonce)); err != nil {
			return m, err
		}
		return m, t.Change(`DELETE FROM marks WHERE sequence <= $1`, m.Sequence-database.MarksRetained)
	})
}

// MarkOutside implements database.Past.
func (s *Store) MarkOutside(ctx context.Context, generation int64, m database.Mark) error {
	return s.writeLocked(ctx, func(t storeTx) error {
		t.Free = true
		var ours int64
		found, err := t.Row(`SELECT generation FROM past WHERE generation = $1`+t.ForUpdate(), engine.Args{generation}, (*engine.Integer)(&ours))
		if err != nil || !found {
			return err
		}
		return t.Change(`UPDATE marks SET outside = 1 WHERE sequence = $1 AND nonce = $2`, m.Sequence, []byte(m.Nonce))
	})
}

// LackedMarks implements database.Past.
func (s *Store) LackedMarks(ctx context.Context, marks []database.Mark) ([]database.Mark, error) {
	return engine.ResultOf(ctx, s.snapshot, func(t storeTx) ([]database.Mark, error) {
		var oldest int64
		if _, err := t.Row(`SELECT COALESCE(MIN(sequence), 1) FROM marks`, nil, (*engine.Integer)(&oldest)); err != nil {
			return nil, err
		}
		var lacked []database.Mark
		for _, m := range marks {
			if m.Sequence < oldest {
				continue
			}
			var nonce string
			if _, err := t.Row(`SELECT nonce FROM marks WHERE sequence = $1`, engine.Args{m.Sequence}, &nonce); err != nil {
				return nil, err
			}
			if nonce != m.Nonce {
				lacked = append(lacked, m)
			}
		}
		return lacked, nil
	})
}

// RecordSetback implements database.Past.
func (s *Store) RecordSetback(ctx context.Context, generation int64, how string) error {
	return s.writeLocked(ctx, func(t storeTx) error {
		t.Free = true
		var text string
		found, err := t.Row(`SELECT COALESCE(set_back, $2) FROM past WHERE generation = $1`+t.ForUpdate(), engine.Args{generation, []byte{}}, &text)
		if err != nil || !found {
			return err
		}
		lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
		if slices.Contains(lines, how) || len(lines) >= database.MaxSetbackLines {
			return nil
		}
		_, err = t.Exec(`UPDATE past SET set_back = $2 WHERE generation = $1`, generation, []byte(strings.Join(append(lines, how), "\n")))
		return err
	})
}

// BeginGeneration implements database.Past.
func (s *Store) BeginGeneration(ctx context.Context, old, next int64, kept database.KeptObjects) error {
	return s.writeLocked(ctx, func(t storeTx) error {
		t.Free = true
		n, err := t.Exec(`UPDATE past SET generation = $2, set_back = NULL, kept_before = $3, kept_until = $4 WHERE generation = $1 AND $2 > $1`,
			old, next, engine.Micros(kept.MadeBefore), engine.Micros(kept.Until))
		if err == nil && n == 0 {
			err = fmt.Errorf("generation %d: %w", old, database.ErrNotFound)
		}
		if err != nil {
			return err
		}
		_, err = t.Exec(`UPDATE marks SET outside = 0`)
		return err
	})
}

// ReleaseObjects implements database.Past.
func (s *Store) ReleaseObjects(ctx context.Context) error {
	return s.writeLocked(ctx, func(t storeTx) error {
		t.Free = true
		_, err := t.Exec(`UPDATE past SET kept_before = NULL, kept_until = NULL`)
		return err
	})
}

// LostCommits implements database.Past.
func (s *Store) LostCommits() error { return s.db.LostCommits() }

// ForgetCommits implements database.Past.
func (s *Store) ForgetCommits() { s.db.ForgetCommits() }
