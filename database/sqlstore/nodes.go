package sqlstore

import (
	"context"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
)

// Join implements database.Nodes.
func (s *Store) Join(ctx context.Context, id, settings string, n database.Node, ttl time.Duration, agrees func(others []string) error) error {
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
		others, err := engine.Collect(t.Tx, `SELECT common FROM nodes WHERE id <> $1 AND expires > $2`, engine.Args{[]byte(id), now.UnixMicro()}, engine.Args{&other}, &other)
		if err != nil {
			return err
		}
		if err := agrees(others); err != nil {
			return err
		}
		if _, err := t.Exec(`DELETE FROM nodes WHERE expires <= $1`, now.UnixMicro()); err != nil {
			return err
		}
		if n.Leads {
			if _, err := t.Exec(`UPDATE nodes SET leads = 0 WHERE leads = 1`); err != nil {
				return err
			}
		}
		_, err = t.Exec(`INSERT INTO nodes (id, common, expires, name, version, reason, since, leads) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
			ON CONFLICT (id) DO UPDATE SET common = excluded.common, expires = excluded.expires, name = excluded.name,
				version = excluded.version, reason = excluded.reason, since = excluded.since, leads = excluded.leads`,
			[]byte(id), []byte(settings), now.Add(ttl).UnixMicro(), engine.OptionalColumn(n.Name), engine.OptionalColumn(n.Version), engine.OptionalColumn(n.Reason), engine.Micros(n.Since), engine.FlagColumn(n.Leads))
		return err
	})
}

// Leave implements database.Nodes.
func (s *Store) Leave(ctx context.Context, id string) error {
	return s.in.WriteLocked(ctx, func(t storeTx) error {
		t.Free = true
		if err := t.Lock("nodes"); err != nil {
			return err
		}
		_, err := t.Exec(`DELETE FROM nodes WHERE id = $1`, []byte(id))
		return err
	})
}

// ListNodes implements database.Nodes.
func (s *Store) ListNodes(ctx context.Context) ([]database.Node, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t storeTx) ([]database.Node, error) {
		now, err := s.db.LeaseTime(t.Tx)
		if err != nil {
			return nil, err
		}
		var n database.Node
		return engine.Collect(t.Tx, `SELECT name, version, reason, since, leads FROM nodes WHERE expires > $1 ORDER BY name, id`,
			engine.Args{now.UnixMicro()}, nodeFields(&n), &n)
	})
}

func nodeFields(n *database.Node) engine.Args {
	return engine.Args{
		(*engine.OptionalText)(&n.Name), (*engine.OptionalText)(&n.Version), (*engine.OptionalText)(&n.Reason),
		(*engine.Instant)(&n.Since), (*engine.Boolean)(&n.Leads),
	}
}
