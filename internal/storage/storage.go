// Package storage opens the stores of an instance. No other package names the
// implementations of metastore.Store and bytestore.Store.
package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/cached"
	"sluice/bytestore/localfs"
	"sluice/bytestore/s3"
	"sluice/internal/datadir"
	"sluice/metastore"
	"sluice/metastore/sqlstore"
)

// Stores are the open stores of an instance. The caller must Close them.
type Stores struct {
	Meta  metastore.Store
	Bytes bytestore.Store

	// Space returns bytestore.ErrNoSpace if n more bytes should not be accepted.
	Space func(n int64) error
	// Ready returns an error that says why nothing can be written now, or nil.
	Ready func(context.Context) error
	// MetaStopped and BytesStopped are closed when the store accepts no writes
	// until it is opened again. They are nil if the store has no such state.
	MetaStopped, BytesStopped <-chan struct{}
	// Fence detects another database that uses the same bytes. It is nil if both
	// parts are in the data folder.
	Fence *blob.Fence

	remote  bool
	cache   *cached.Store
	ballast *datadir.Ballast // nil if the metadata is not in the data folder
	close   []func() error
}

// Open opens the stores of an instance for a node, creates those that do not exist,
// and locks the data folder.
func Open(ctx context.Context, l Location, opt Options) (_ *Stores, err error) {
	s := &Stores{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	dir, err := s.openDir(l.Data)
	if err != nil {
		return nil, err
	}
	bytesErr, err := s.openBytes(ctx, l, dir, opt)
	if err != nil {
		return nil, err
	}
	if !l.Shared() {
		s.ballast = dir.Ballast(s.Space)
	}
	// The folder is locked, and commands that open a database beside its server change no blobs.
	options := sqlstore.Options{BlobCache: opt.BlobCache}
	metaErr, err := s.openMeta(ctx, l, dir, options)
	if errors.Is(err, metastore.ErrNoSpace) && s.ballast != nil && s.ballast.Drop() {
		// The disk is full. Deletes can free space only if the database opens.
		metaErr, err = s.openMeta(ctx, l, dir, options)
	}
	if err != nil {
		return nil, err
	}
	s.Ready = func(ctx context.Context) error { return errors.Join(metaErr(), bytesErr(ctx)) }
	if s.ballast != nil {
		if err := s.ballast.Restore(); err != nil {
			return nil, err
		}
	}
	if _, err := blob.Bind(ctx, s.Meta, s.Bytes); err != nil {
		return nil, fmt.Errorf("opening the instance: %w", err)
	}
	if !l.Remote() && !l.Shared() {
		return s, nil
	}
	if s.Fence, err = blob.OpenFence(ctx, s.Meta, s.Bytes); err != nil {
		return nil, fmt.Errorf("opening the instance: %w", err)
	}
	s.Ready = func(ctx context.Context) error { return errors.Join(metaErr(), bytesErr(ctx), s.Fence.Err()) }
	return s, nil
}

// OpenMeta opens the metadata alone, which is possible while nodes run on it. Then
// the schema must be that of this version, otherwise OpenMeta returns
// metastore.ErrOlder: a schema must not change under a running node. If there is no
// metadata, OpenMeta creates it if create is set, and returns an error otherwise.
func OpenMeta(ctx context.Context, l Location, create bool) (_ *Stores, err error) {
	s := &Stores{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if l.Shared() {
		_, err = s.openMeta(ctx, l, nil, sqlstore.Options{Existing: !create})
		return s, err
	}
	if !create && !datadir.HasDatabase(l.Data) {
		return nil, fmt.Errorf("there is no data in the folder %s: name another with --data DIR", l.Data)
	}
	dir, err := s.openDir(l.Data)
	if err == nil {
		_, err = s.openMeta(ctx, l, dir, sqlstore.Options{})
	}
	if !errors.Is(err, datadir.ErrInUse) {
		return s, err
	}
	sql, err := sqlstore.OpenSQLite(filepath.Join(l.Data, datadir.Database), sqlstore.Options{Existing: true})
	if err != nil {
		return nil, fmt.Errorf("opening the metadata in %s while a server runs there: %w", l.Data, err)
	}
	s.use(sql)
	return s, nil
}

// Endpoint is the source or the target of a clone. Its parts may belong to no
// instance yet.
type Endpoint struct {
	*Stores

	SQL *sqlstore.Store // the same as Meta
}

// OpenEndpoint opens the stores of a source or a target, and locks its data folder
// if it has one. If existing is set, it returns an error if a part does not exist,
// and creates nothing. If mark is not nil, it is called with the bytes before the
// metadata is created. The caller must Close the endpoint.
func OpenEndpoint(ctx context.Context, l Location, existing bool, mark func(context.Context, bytestore.Store) error) (_ *Endpoint, err error) {
	s := &Stores{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if existing {
		if err := requireParts(l); err != nil {
			return nil, err
		}
	}
	if l.Data == "" { // an object store needs a folder for staging
		l.Data, err = os.MkdirTemp("", "sluice-clone-")
		if err != nil {
			return nil, err
		}
		s.close = append(s.close, func() error { return os.RemoveAll(l.Data) })
	}
	dir, err := s.openDir(l.Data)
	if err != nil {
		return nil, err
	}
	if _, err := s.openBytes(ctx, l, dir, Options{}); err != nil {
		return nil, err
	}
	if mark != nil {
		if err := mark(ctx, s.Bytes); err != nil {
			return nil, err
		}
	}
	if _, err := s.openMeta(ctx, l, dir, sqlstore.Options{Existing: existing}); err != nil {
		return nil, err
	}
	return &Endpoint{s, s.Meta.(*sqlstore.Store)}, nil
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

func (s *Stores) openDir(path string) (*datadir.Dir, error) {
	dir, err := datadir.Open(path)
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, dir.Close)
	return dir, nil
}

// openBytes opens the byte store. It returns a function that says why nothing can
// be written to it.
func (s *Stores) openBytes(ctx context.Context, l Location, dir *datadir.Dir, opt Options) (func(context.Context) error, error) {
	if !l.Remote() {
		files, err := localfs.Open(dir.Path(datadir.Bytes), localfs.Options{})
		if err != nil {
			return nil, fmt.Errorf("opening the bytes in %s: %w", l.Data, err)
		}
		s.Bytes, s.Space, s.BytesStopped = files, files.Space, files.Stopped()
		s.close = append(s.close, files.Close)
		return func(context.Context) error { return errors.Join(files.Err(), files.Space(0)) }, nil
	}
	config, err := s3.ParseDSN(l.Bytes)
	if err != nil {
		return nil, err
	}
	objects, err := s3.Open(ctx, config, s3.Options{Staging: dir.Path(datadir.Staging), StagingLimit: opt.StagingSize})
	if err != nil {
		return nil, fmt.Errorf("opening the bytes: %w", err)
	}
	s.Bytes, s.Space, s.remote = objects, func(int64) error { return nil }, true
	s.close = append(s.close, objects.Close)
	if opt.Cache != "" {
		if s.cache, err = cached.Open(objects, opt.Cache, cached.Options{Size: opt.CacheSize}); err != nil {
			return nil, fmt.Errorf("opening the cache: %w", err)
		}
		s.Bytes = s.cache
		s.close = append(s.close, s.cache.Close)
	}
	return objects.Ready, nil
}

// openMeta opens the metadata store. It returns a function that says why nothing
// can be written to it.
func (s *Stores) openMeta(ctx context.Context, l Location, dir *datadir.Dir, opt sqlstore.Options) (func() error, error) {
	if l.Shared() {
		sql, err := sqlstore.OpenPostgres(ctx, l.Meta, opt)
		if err != nil {
			return nil, fmt.Errorf("opening the metadata: %w", err)
		}
		s.use(sql)
		return sql.Err, nil
	}
	if err := dir.CreateDatabase(); err != nil {
		return nil, err
	}
	sql, err := sqlstore.OpenSQLite(dir.Path(datadir.Database), opt)
	if err != nil {
		return nil, fmt.Errorf("opening the metadata in %s: %w", l.Data, err)
	}
	s.use(sql)
	return sql.Err, dir.Sync()
}

func (s *Stores) use(sql *sqlstore.Store) {
	s.Meta, s.MetaStopped = sql, sql.Stopped()
	s.close = append(s.close, sql.Close)
}

// AtClose adds a function that Close calls before it closes the stores.
func (s *Stores) AtClose(fn func() error) { s.close = append(s.close, fn) }

// Close closes what was opened, in reverse order.
func (s *Stores) Close() error {
	var errs []error
	for i := len(s.close) - 1; i >= 0; i-- {
		errs = append(errs, s.close[i]())
	}
	s.close = nil
	return errors.Join(errs...)
}

// BlobOptions returns the options of a blob service over these stores.
func (s *Stores) BlobOptions() blob.Options {
	opt := blob.Options{Space: s.Space}
	if s.ballast != nil {
		opt.Relieve, opt.Restore = s.ballast.Drop, s.ballast.Restore
	}
	if s.Fence != nil {
		opt.MayDelete = s.Fence.MayDelete
	}
	if s.remote {
		opt.ExtentSize = remoteExtentSize
	}
	return opt
}

// RegisterMetrics registers the metrics of the cache, if there is one.
func (s *Stores) RegisterMetrics(r prometheus.Registerer) {
	if s.cache == nil {
		return
	}
	for _, counter := range []struct {
		name, help string
		value      func(cached.Stats) int64
	}{
		{"sluice_cache_hits_total", "Blocks found in the cache when a reader needed them.", func(c cached.Stats) int64 { return c.Hits }},
		{"sluice_cache_misses_total", "Blocks that were not in the cache when they were needed, or prefetched.", func(c cached.Stats) int64 { return c.Misses }},
		{"sluice_cache_fetches_total", "Requests for blocks to the object store.", func(c cached.Stats) int64 { return c.Fetches }},
		{"sluice_cache_bypasses_total", "Reads that continued in the object store, because blocks could not be cached or read.", func(c cached.Stats) int64 { return c.Bypasses }},
		{"sluice_cache_evictions_total", "Blocks evicted from the cache.", func(c cached.Stats) int64 { return c.Evictions }},
		{"sluice_cache_damaged_total", "Blocks found damaged in the cache and fetched again.", func(c cached.Stats) int64 { return c.Damaged }},
		{"sluice_cache_errors_total", "Failed file operations of the cache.", func(c cached.Stats) int64 { return c.Errors }},
	} {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: counter.name, Help: counter.help},
			func() float64 { return float64(counter.value(s.cache.Stats())) }))
	}
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_cache_bytes", Help: "Bytes that the cache uses on its disk."},
		func() float64 { return float64(s.cache.Stats().Bytes) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_cache_blocks", Help: "Blocks in the cache."},
			func() float64 { return float64(s.cache.Stats().Blocks) }))
}
