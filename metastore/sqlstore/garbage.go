package sqlstore

import (
	"context"
	"fmt"
	"slices"
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

// GarbageObjects implements metastore.Garbage.
func (s *Store) GarbageObjects(ctx context.Context, contents []metastore.ContentID) (map[metastore.ContentID][]string, error) {
	if err := checkContents(contents); err != nil {
		return nil, err
	}
	var objects map[metastore.ContentID][]string
	err := s.snapshot(ctx, func(t *tx) error {
		objects = make(map[metastore.ContentID][]string, len(contents))
		for _, content := range contents {
			keys, small, err := t.smallGarbage(content)
			if err != nil {
				return err
			}
			if small {
				objects[content] = keys
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return objects, nil
}

// DropContents implements metastore.Garbage.
func (s *Store) DropContents(ctx context.Context, contents []metastore.ContentID) error {
	if err := checkContents(contents); err != nil {
		return err
	}
	return s.write(ctx, func(t *tx) error {
		for _, content := range contents {
			if err := t.dropSmall(content); err != nil {
				return err
			}
		}
		return nil
	})
}

func checkContents(contents []metastore.ContentID) error {
	if len(contents) > metastore.MaxContents {
		return fmt.Errorf("sqlstore: %d contents in a call, at most %d", len(contents), metastore.MaxContents)
	}
	return nil
}

// smallGarbage gives the keys of a content's objects; false when it is not
// garbage or not small.
func (t *tx) smallGarbage(content metastore.ContentID) ([]string, bool, error) {
	var keys []string
	var key optionalText
	rows := 0
	err := t.each(`SELECT e.object FROM garbage g LEFT JOIN extents e ON e.content = g.content
		WHERE g.content = $1 LIMIT ($2 + 0)`, args{content[:], int64(metastore.MaxSmallExtents + 1)}, args{&key},
		func() (bool, error) {
			rows++
			if key != "" {
				keys = append(keys, string(key))
			}
			return true, nil
		})
	// A garbage content without extents is one row too.
	return keys, rows > 0 && rows <= metastore.MaxSmallExtents, err
}

func (t *tx) dropSmall(content metastore.ContentID) error {
	_, small, err := t.smallGarbage(content)
	if err != nil || !small {
		return err
	}
	for _, query := range []string{
		`DELETE FROM bodies WHERE content = $1`,
		`DELETE FROM extents WHERE content = $1`,
		`DELETE FROM garbage WHERE content = $1`,
	} {
		if _, err := t.exec(query, content[:]); err != nil {
			return err
		}
	}
	return nil
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
	wanted := slices.Sorted(slices.Values(keys))
	var free []string
	err := s.snapshot(ctx, func(t *tx) (err error) {
		free, err = t.unreferenced(wanted)
		return err
	})
	return free, err
}

// unreferenced walks over the sorted keys and the index of objects at once. A
// sweep asks for keys that stand close together in it, and then each query
// finds twice as many of them as the one before. Where they are far apart a
// query finds one.
func (t *tx) unreferenced(wanted []string) (free []string, err error) {
	for size := 1; len(wanted) > 0; {
		rows, left := 0, wanted
		var object string
		err := t.each(`SELECT object FROM extents WHERE object >= $1 AND object <= $2 ORDER BY object LIMIT ($3 + 0)`,
			args{[]byte(wanted[0]), []byte(wanted[len(wanted)-1]), int64(size)}, args{&object},
			func() (bool, error) {
				rows++
				for len(left) > 0 && left[0] < object {
					free, left = append(free, left[0]), left[1:]
				}
				for len(left) > 0 && left[0] == object {
					left = left[1:]
				}
				return true, nil
			})
		if err != nil {
			return nil, err
		}
		if rows < size {
			return append(free, left...), nil
		}
		size, wanted = min(2*(len(wanted)-len(left)), maxUnreferenced), left
	}
	return free, nil
}
