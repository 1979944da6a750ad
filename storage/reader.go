package storage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"sluice/bytestore"
	"sluice/bytestore/localfs"
	"sluice/bytestore/s3"
	"sluice/database/sqlstore"
	"sluice/internal/datadir"
	"sluice/metastore"
)

// OpenReader opens both parts of an instance for reading, whether or not nodes run on it. It locks
// nothing, and changes neither the metadata nor the bytes; SQLite may create its log beside the
// database, and move the log's pages into the database. The endpoint's Bytes refuse changes with
// bytestore.ErrReadOnly, and its Meta must not be changed. Its Space and Disk are nil.
//
// OpenReader returns database.ErrOlder or database.ErrNewer for the metadata of another version,
// and ErrDamaged for metadata that are too damaged to be opened. If a node is starting in the
// folder, it waits up to two seconds for the metadata. The caller must Close the endpoint.
func OpenReader(ctx context.Context, l Location) (_ *Endpoint, err error) {
	s := &Stores{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := requireParts(l); err != nil {
		return nil, err
	}
	options := sqlstore.Options{Schema: sqlstore.Keep, TempFiles: true}
	if l.Shared() {
		err = s.openMeta(ctx, l, nil, options)
	} else {
		options.Beside = datadir.InUse(l.Data)
		err = s.openBeside(ctx, l.Data, options)
	}
	if err != nil && !l.Shared() {
		err = fmt.Errorf("opening the metadata in %s: %w", l.Data, err)
		if errors.Is(err, sqlstore.ErrCorrupt) {
			err = fmt.Errorf("%w; %w", ErrDamaged, err)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := s.openBytesForReading(ctx, l); err != nil {
		return nil, fmt.Errorf("opening the bytes: %w", err)
	}
	return &Endpoint{s, s.sql}, nil
}

// InlineExtent is an inline extent with its body.
type InlineExtent = sqlstore.InlineExtent

// EachObject compares the objects that exist with those that the metadata refer to, without
// garbage. Objects that are stored or freed meanwhile may count as missing or unknown.
func (e *Endpoint) EachObject(ctx context.Context, c Comparison) error {
	return c.run(ctx, e.SQL, e.Bytes)
}

// EachBlob calls fn with each blob that has not expired.
func (e *Endpoint) EachBlob(ctx context.Context, fn func(metastore.Blob)) error {
	return eachBlob(ctx, e.SQL, fn)
}

func (s *Stores) openBytesForReading(ctx context.Context, l Location) (err error) {
	place := l.Bytes
	if s.remote = l.Remote(); !s.remote {
		place = filepath.Join(l.Data, datadir.Bytes)
	}
	var closeBytes func() error
	if s.Bytes, closeBytes, err = openForReading(ctx, place); err == nil {
		s.close = append(s.close, closeBytes)
	}
	return err
}

// openForReading opens a folder, or an object store's DSN.
func openForReading(ctx context.Context, place string) (_ bytestore.Store, closePlace func() error, err error) {
	if !isObjectStore(place) {
		files, err := localfs.OpenReader(place, localfs.Options{})
		if err != nil {
			return nil, nil, err
		}
		return bytestore.ReadOnly{Reader: files}, files.Close, nil
	}
	config, err := s3.ParseDSN(place)
	if err != nil {
		return nil, nil, err
	}
	objects, err := s3.OpenReader(ctx, config, s3.Options{})
	if err != nil {
		return nil, nil, err
	}
	return bytestore.ReadOnly{Reader: objects}, objects.Close, nil
}
