package storage

import (
	"context"
	"errors"
	"os"

	"sluice/bytestore"
	"sluice/database/sqlstore"
	"sluice/internal/datadir"
)

// Endpoint is an instance that a command uses alone, or a restore's target. A target's parts may
// belong to no instance yet.
type Endpoint struct {
	*Stores

	SQL *sqlstore.Store // the same as Meta
}

// OpenEndpoint opens an instance's or a target's stores, and locks its data folder, if any. If
// existing is set, it returns an error if a part does not exist, or ErrDamaged, and creates
// nothing. It returns database.ErrOlder if there is metadata with an older schema. If mark is not
// nil, OpenEndpoint calls it with the bytes before it creates the metadata. The caller must Close
// the endpoint.
func OpenEndpoint(ctx context.Context, l Location, existing bool, mark func(context.Context, bytestore.Store) error) (_ *Endpoint, err error) {
	s, options := &Stores{}, sqlstore.Options{Schema: sqlstore.Create}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if existing {
		options.Schema = sqlstore.Keep
		if err := requireParts(l); err != nil {
			return nil, err
		}
	}
	if l.Data == "" { // an object store needs a folder for staging
		l.Data, err = os.MkdirTemp("", "sluice-staging-")
		if err != nil {
			return nil, err
		}
		s.close = append(s.close, func() error { return os.RemoveAll(l.Data) })
	}
	dir, err := s.openDir(l.Data, datadir.Open)
	if err != nil {
		return nil, err
	}
	if err := s.openBytes(ctx, l, dir, Options{}); err != nil {
		return nil, err
	}
	if existing && !l.Shared() {
		if s.Look, err = lookAtPages(ctx, dir, func(Steps) error { return nil }); err != nil {
			return nil, err
		}
		s.record = dir.RecordWhole
	}
	if mark != nil {
		if err := mark(ctx, s.Bytes); err != nil {
			return nil, err
		}
	}
	if err := s.openMeta(ctx, l, dir, options); err != nil {
		return nil, err
	}
	return &Endpoint{s, s.Meta.(*sqlstore.Store)}, nil
}

// Compare compares the objects that exist with those that metadata refer to, and names at most
// names blobs that lack objects.
func (e *Endpoint) Compare(ctx context.Context, names int) (Differences, error) {
	return compare(ctx, e.SQL, e.Bytes, names, func(int64) error { return nil })
}

// Adopt records that the database is the one of its folder, whatever Look has found. It does
// nothing if the database is not in the folder.
func (e *Endpoint) Adopt() error {
	if e.record == nil {
		return nil
	}
	return e.record()
}

// requireParts returns an error unless the parts that have no DSN exist in the data
// folder.
func requireParts(l Location) error {
	var parts []string
	if l.Meta == "" {
		parts = append(parts, datadir.Database)
	}
	if l.Bytes == "" {
		parts = append(parts, datadir.Bytes)
	}
	return datadir.Require(l.Data, parts...)
}
