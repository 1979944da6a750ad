package sqlstore

import (
	"context"
	"fmt"

	"sluice/database"
)

// Property implements database.Properties.
func (s *Store) Property(ctx context.Context, name string) (string, error) {
	return resultOf(ctx, s.read, func(t storeTx) (value string, err error) {
		found, err := t.row(`SELECT value FROM facts WHERE name = $1`, args{[]byte(name)}, &value)
		if err == nil && !found {
			err = fmt.Errorf("property %s: %w", name, database.ErrNotFound)
		}
		return value, err
	})
}

// SetProperty implements database.Properties.
func (s *Store) SetProperty(ctx context.Context, name, value string) error {
	return s.write(ctx, func(t storeTx) error {
		t.free = true
		n, err := t.exec(`INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`,
			[]byte(name), []byte(value))
		if err == nil && n == 0 {
			err = fmt.Errorf("property %s: %w", name, database.ErrExists)
		}
		return err
	})
}

// ReplaceProperty implements database.Properties.
func (s *Store) ReplaceProperty(ctx context.Context, name, old, value string) error {
	return s.write(ctx, func(t storeTx) error {
		t.free = true
		n, err := t.exec(`UPDATE facts SET value = $3 WHERE name = $1 AND value = $2`, []byte(name), []byte(old), []byte(value))
		if err == nil && n == 0 {
			err = fmt.Errorf("property %s has another value: %w", name, database.ErrNotFound)
		}
		return err
	})
}

// Empty implements database.Properties.
func (s *Store) Empty(ctx context.Context) (bool, error) {
	return resultOf(ctx, s.read, func(t storeTx) (bool, error) {
		var rows int64
		_, err := t.row(`SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM blobs LIMIT 1) a)
			+ (SELECT COUNT(*) FROM (SELECT 1 FROM uploads LIMIT 1) a)
			+ (SELECT COUNT(*) FROM (SELECT 1 FROM sessions LIMIT 1) a)
			+ (SELECT COUNT(*) FROM (SELECT 1 FROM channels LIMIT 1) a)
			+ (SELECT COUNT(*) FROM (SELECT 1 FROM garbage LIMIT 1) a)`, nil, (*integer)(&rows))
		return rows == 0, err
	})
}
