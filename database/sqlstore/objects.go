package sqlstore

import (
	"context"

	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// isGarbage is the condition for extents in garbage, which may have no objects any more.
const isGarbage = `EXISTS (SELECT 1 FROM garbage g WHERE g.content = extents.content)`

// Object is an extent that is an object.
type Object = metastore.StoredExtent

// HasObject reports whether an extent that is no garbage is the object of this name.
func (s *Store) HasObject(ctx context.Context, name string) (bool, error) {
	var found bool
	err := s.in.Read(ctx, func(t storeTx) (err error) {
		var one engine.Integer
		found, err = t.Row(`SELECT 1 FROM extents WHERE object = $1 AND NOT `+isGarbage, engine.Args{[]byte(name)}, &one)
		return err
	})
	return found, err
}

// CountObjects returns the number and the bytes of all objects that are no garbage.
func (s *Store) CountObjects(ctx context.Context) (objects, bytes int64, err error) {
	err = s.in.Snapshot(ctx, func(t storeTx) error {
		_, err := t.Row(`SELECT COUNT(*), CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM extents WHERE object > $1 AND NOT `+isGarbage, engine.Args{[]byte{}},
			(*engine.Integer)(&objects), (*engine.Integer)(&bytes))
		return err
	})
	return objects, bytes, err
}
