package sqlstore

import (
	"context"
	"fmt"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
)

// Property implements database.Properties.
func (s *Store) Property(ctx context.Context, name string) (string, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t storeTx) (value string, err error) {
		found, err := t.Row(`SELECT value FROM facts WHERE name = $1`, engine.Args{[]byte(name)}, &value)
		if err == nil && !found {
			err = fmt.Errorf("property %s: %w", name, database.ErrNotFound)
		}
		return value, err
	})
}

// SetProperty implements database.Properties.
func (s *Store) SetProperty(ctx context.Context, name, value string) error {
	return s.in.Write(ctx, func(t storeTx) error {
		t.Free = true
		n, err := t.Exec(`INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`,
			[]byte(name), []byte(value))
		if err == nil && n == 0 {
			err = fmt.Errorf("property %s: %w", name, database.ErrExists)
		}
		return err
	})
}

// ReplaceProperty implements database.Properties.
func (s *Store) ReplaceProperty(ctx context.Context, name, old, value string) error {
	return s.in.Write(ctx, func(t storeTx) error {
		t.Free = true
		n, err := t.Exec(`UPDATE facts SET value = $3 WHERE name = $1 AND value = $2`, []byte(name), []byte(old), []byte(value))
		if err == nil && n == 0 {
			err = fmt.Errorf("property %s has another value: %w", name, database.ErrNotFound)
		}
		return err
	})
}

// Empty implements database.Properties.
func (s *Store) Empty(ctx context.Context) (bool, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t storeTx) (bool, error) {
		var rows int64
		_, err := t.Row(`SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM blobs LIMIT 1) a)
			+ (SELECT COUNT(*) FROM (SELECT 1 FROM uploads LIMIT 1) a)
			+ (SELECT COUNT(*) FROM (SELECT 1 FROM sessions LIMIT 1) a)
			+ (SELECT COUNT(*) FROM (SELECT 1 FROM channels LIMIT 1) a)
			+ (SELECT COUNT(*) FROM (SELECT 1 FROM garbage LIMIT 1) a)`, nil, (*engine.Integer)(&rows))
		return rows == 0, err
	})
}

// Properties returns all properties by name.
func (s *Store) Properties(ctx context.Context) (map[string]string, error) {
	var facts map[string]string
	err := s.in.Read(ctx, func(t storeTx) (err error) {
		facts, err = t.properties()
		return err
	})
	return facts, err
}

func (t storeTx) properties() (map[string]string, error) {
	facts := map[string]string{}
	var name, value string
	err := t.Each(`SELECT name, value FROM facts`, nil, engine.Args{&name, &value}, func() error {
		facts[name] = value
		return nil
	})
	return facts, err
}
