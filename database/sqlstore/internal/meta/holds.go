package meta

import (
	"context"
	"time"

	"sluice/database/sqlstore/internal/engine"
)

// heldBefore is how much earlier than a hold a content may have become garbage that is held.
const heldBefore = time.Minute

// HoldGarbage implements metastore.Garbage.
func (s *Metastore) HoldGarbage(ctx context.Context, id string, period time.Duration) (since time.Time, err error) {
	err = s.in.WriteLocked(ctx, func(t tx) error {
		t.Free = true
		now := t.Now.UnixMicro()
		if _, err := t.Exec(`DELETE FROM holds WHERE held_until <= $1`, now); err != nil {
			return err
		}
		since = t.Now.Add(-heldBefore)
		_, err := t.Row(`INSERT INTO holds (id, since, held_until) VALUES ($1, $2, $3)
			ON CONFLICT (id) DO UPDATE SET held_until = excluded.held_until RETURNING since`,
			engine.Args{[]byte(id), since.UnixMicro(), t.Now.Add(period).UnixMicro()}, (*engine.Instant)(&since))
		t.Changed = true
		return err
	})
	return since, err
}

// ReleaseGarbage implements metastore.Garbage.
func (s *Metastore) ReleaseGarbage(ctx context.Context, id string) error {
	return s.in.WriteLocked(ctx, func(t tx) error {
		t.Free = true
		_, err := t.Exec(`DELETE FROM holds WHERE id = $1`, []byte(id))
		return err
	})
}

// GarbageHeld implements metastore.Garbage.
func (s *Metastore) GarbageHeld(ctx context.Context) (since time.Time, held bool, err error) {
	err = s.db.Read(ctx, s.in.On(func(t tx) error {
		since = time.Time{}
		_, err := t.Row(`SELECT MIN(since) FROM holds WHERE held_until > $1`, engine.Args{t.Now.UnixMicro()}, (*engine.Instant)(&since))
		return err
	}))
	return since, !since.IsZero(), err
}
