package sqlstore

import (
	"context"
	"fmt"
	"time"

	"sluice/metastore"
)

// addGarbage makes a content garbage.
func (t *tx) addGarbage(content metastore.ContentID) error {
	_, err := t.exec(`INSERT INTO garbage (content, since) VALUES ($1, $2)`, content[:], t.now.UnixMicro())
	return err
}

func (t *tx) isGarbage(content metastore.ContentID) (bool, error) {
	var one integer
	return t.row(`SELECT 1 FROM garbage WHERE content = $1`, args{content[:]}, &one)
}

func (t *tx) hasExtents(content metastore.ContentID) (bool, error) {
	var one integer
	return t.row(`SELECT 1 FROM extents WHERE content = $1 LIMIT 1`, args{content[:]}, &one)
}

// GarbageContents implements metastore.Garbage. A content that became garbage
// at before is given.
func (s *Store) GarbageContents(ctx context.Context, before time.Time, after metastore.ContentID, limit int) ([]metastore.ContentID, error) {
	var list []metastore.ContentID
	err := s.read(ctx, func(t *tx) error {
		list = nil
		var id metastore.ContentID
		return t.each(`SELECT content FROM garbage WHERE content > $1 AND since <= $2 ORDER BY content LIMIT ($3 + 0)`,
			args{after[:], before.UnixMicro(), int64(limit)}, args{(*contentID)(&id)},
			func() (bool, error) {
				list = append(list, id)
				return true, nil
			})
	})
	return list, err
}

// DropExtents implements metastore.Garbage. For a content that has no extents,
// garbage or not, there is nothing to do.
func (s *Store) DropExtents(ctx context.Context, content metastore.ContentID, extents []metastore.Position) error {
	return s.write(ctx, func(t *tx) error {
		garbage, err := t.isGarbage(content)
		if err != nil {
			return err
		}
		if !garbage {
			live, err := t.hasExtents(content)
			if err == nil && live {
				err = fmt.Errorf("content %v is not garbage: %w", content, metastore.ErrNotFound)
			}
			return err
		}
		return t.dropExtents(content, extents)
	})
}

func (t *tx) dropExtents(content metastore.ContentID, extents []metastore.Position) error {
	// Most contents have no inline extents, and need half the statements.
	var one integer
	inline, err := t.row(`SELECT 1 FROM bodies WHERE content = $1 LIMIT 1`, args{content[:]}, &one)
	if err != nil {
		return err
	}
	for _, p := range extents {
		_, err := t.exec(`DELETE FROM extents WHERE content = $1 AND part = $2 AND off = $3`, content[:], int64(p.Part), p.Offset)
		if err != nil {
			return err
		}
		if !inline {
			continue
		}
		_, err = t.exec(`DELETE FROM bodies WHERE content = $1 AND part = $2 AND off = $3`, content[:], int64(p.Part), p.Offset)
		if err != nil {
			return err
		}
	}
	return nil
}

// DropContent implements metastore.Garbage.
func (s *Store) DropContent(ctx context.Context, content metastore.ContentID) error {
	return s.write(ctx, func(t *tx) error {
		garbage, err := t.isGarbage(content)
		if err != nil || !garbage {
			return err
		}
		if some, err := t.hasExtents(content); err != nil {
			return err
		} else if some {
			return fmt.Errorf("extents of content %v: %w", content, metastore.ErrExists)
		}
		_, err = t.exec(`DELETE FROM garbage WHERE content = $1`, content[:])
		return err
	})
}

// maxUnreferenced is the contract's limit of keys in a call.
const maxUnreferenced = 1000

// Unreferenced implements metastore.Garbage.
func (s *Store) Unreferenced(ctx context.Context, keys []string) ([]string, error) {
	if len(keys) > maxUnreferenced {
		return nil, fmt.Errorf("sqlstore: %d keys in a call, at most %d", len(keys), maxUnreferenced)
	}
	var free []string
	err := s.snapshot(ctx, func(t *tx) error {
		free = nil
		var one integer
		for _, k := range keys {
			found, err := t.row(`SELECT 1 FROM extents WHERE object = $1`, args{[]byte(k)}, &one)
			if err != nil {
				return err
			}
			if !found {
				free = append(free, k)
			}
		}
		return nil
	})
	return free, err
}
