package sqlstore

import (
	"context"
	"time"

	"sluice/database/sqlstore/internal/engine"
)

// Join implements database.Nodes.
func (s *Store) Join(ctx context.Context, node, settings string, ttl time.Duration, agrees func(others []string) error) error {
	return s.in.WriteLocked(ctx, func(t storeTx) error {
		t.Free = true
		// First, so that the time is read after waiting for the lock.
		if err := t.Lock("nodes"); err != nil {
			return err
		}
		now, err := s.db.LeaseTime(t.Tx)
		if err != nil {
			return err
		}
		var other string
		others, err := engine.Collect(t.Tx, `SELECT agreed FROM nodes WHERE id <> $1 AND expires > $2`, engine.Args{[]byte(node), now.UnixMicro()}, engine.Args{&other}, &other)
		if err != nil {
			return err
		}
		if err := agrees(others); err != nil {
			return err
		}
		if _, err := t.Exec(`DELETE FROM nodes WHERE expires <= $1`, now.UnixMicro()); err != nil {
			return err
		}
		_, err = t.Exec(`INSERT INTO nodes (id, agreed, expires) VALUES ($1, $2, $3)
			ON CONFLICT (id) DO UPDATE SET agreed = excluded.agreed, expires = excluded.expires`,
			[]byte(node), []byte(settings), now.Add(ttl).UnixMicro())
		return err
	})
}

// Leave implements database.Nodes.
func (s *Store) Leave(ctx context.Context, node string) error {
	return s.in.WriteLocked(ctx, func(t storeTx) error {
		t.Free = true
		if err := t.Lock("nodes"); err != nil {
			return err
		}
		_, err := t.Exec(`DELETE FROM nodes WHERE id = $1`, []byte(node))
		return err
	})
}
