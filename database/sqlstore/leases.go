package sqlstore

import (
	"context"
	"time"
)

// Lease implements lease.Leases.
func (s *Store) Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	var held bool
	err := s.in.WriteLocked(ctx, func(t storeTx) (err error) {
		t.Free = true
		// First, so that the time is read after waiting for the lock.
		if err := t.Lock("lease", name); err != nil {
			return err
		}
		if ttl <= 0 {
			_, err := t.Exec(`DELETE FROM leases WHERE name = $1 AND holder = $2`, []byte(name), []byte(holder))
			return err
		}
		held, err = s.lease(t, name, holder, ttl)
		return err
	})
	return held && err == nil, err
}

func (s *Store) lease(t storeTx, name, holder string, ttl time.Duration) (bool, error) {
	now, err := s.db.LeaseTime(t.Tx)
	if err != nil {
		return false, err
	}
	n, err := t.Exec(`INSERT INTO leases (name, holder, expires) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires = excluded.expires
		WHERE leases.holder = excluded.holder OR leases.expires <= $4`,
		[]byte(name), []byte(holder), now.Add(ttl).UnixMicro(), now.UnixMicro())
	return n > 0, err
}
