package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/cached"
	"sluice/bytestore/localfs"
	"sluice/bytestore/s3"
	"sluice/internal/vfs"
	"sluice/metastore"
	"sluice/metastore/sqlstore"
)

// metaPlace says where the metadata is.
type metaPlace struct {
	Data string `default:"${data}" placeholder:"DIR" help:"The folder that holds everything, or what a node needs of its own; created if it is not there."`
	Meta string `placeholder:"DSN" help:"Where the metadata is, such as postgres://HOST/NAME; by default a database in the data folder."`
}

// places say where the parts of an instance are.
type places struct {
	metaPlace

	Bytes     string `placeholder:"DSN" help:"Where the bytes are, such as s3://BUCKET/PREFIX?endpoint=https://HOST; by default the data folder."`
	Cache     string `placeholder:"DIR" help:"A folder to keep bytes in that were read from an object store; by default there is no cache."`
	CacheSize size   `default:"10GiB" placeholder:"SIZE" help:"How much the cache may hold."`

	StagingSize size `default:"1GiB" placeholder:"SIZE" help:"How much of bodies on their way to an object store may be staged in the data folder, and in memory."`
}

// The kinds of places that are named by a DSN.
const (
	postgresScheme  = "postgres://"
	postgresScheme2 = "postgresql://"
	s3Scheme        = "s3://"
)

// minStaging is the least room for bodies on their way to an object store: two
// extents, so that one is sent while the next comes.
const minStaging = 32 << 20

// shared reports whether several nodes may be at work on the metadata.
func (p metaPlace) shared() bool {
	return strings.HasPrefix(p.Meta, postgresScheme) || strings.HasPrefix(p.Meta, postgresScheme2)
}

// holdsNothing reports whether there is no database in the data folder yet.
func (p metaPlace) holdsNothing() bool {
	_, err := os.Stat(filepath.Join(p.Data, metaFile))
	return errors.Is(err, fs.ErrNotExist)
}

// absolute is the data folder from the root on, as far as that is known.
func (p metaPlace) absolute() string {
	if dir, err := filepath.Abs(p.Data); err == nil {
		return dir
	}
	return p.Data
}

// remote reports whether the bytes are in an object store.
func (p places) remote() bool { return strings.HasPrefix(p.Bytes, s3Scheme) }

// check reports what is wrong with the places. It repeats no DSN: one can hold
// a password.
func (p places) check() error {
	var errs []error
	if p.Data == "" {
		errs = append(errs, errors.New("--data: the folder must have a name"))
	}
	errs = append(errs, p.checkDSNs("--"))
	if p.Cache != "" && !p.remote() {
		errs = append(errs, errors.New("--cache: bytes in the data folder need no cache; it goes with an object store in --bytes"))
	}
	if p.CacheSize < cached.MinSize {
		errs = append(errs, fmt.Errorf("--cache-size: must be at least %s", size(2<<20)))
	}
	if p.StagingSize < minStaging {
		errs = append(errs, fmt.Errorf("--staging-size: must be at least %s", size(minStaging)))
	}
	return errors.Join(errs...)
}

// checkDSNs is check for the DSNs alone, whose flags begin with prefix.
func (p places) checkDSNs(prefix string) error {
	var errs []error
	if p.Meta != "" && !p.shared() {
		errs = append(errs, fmt.Errorf("%smeta: want postgres://USER@HOST/NAME, or nothing for a database in the data folder", prefix))
	}
	if p.Bytes != "" {
		if _, err := s3.ParseDSN(p.Bytes); err != nil {
			errs = append(errs, fmt.Errorf("%sbytes: %w", prefix, err))
		}
	}
	return errors.Join(errs...)
}

// stores are the opened stores of an instance.
type stores struct {
	meta  metastore.Store
	bytes bytestore.Store
	space func(n int64) error         // bytestore.ErrNoSpace when n bytes should not be taken in
	ready func(context.Context) error // why nothing can be written now

	// Closed when one of them takes no writes until it is opened anew; nil where
	// that never happens.
	metaStopped, bytesStopped <-chan struct{}

	fence   *blob.Fence // nil where a copy of the metadata takes its bytes along
	ballast *ballast    // nil where deletes need no room on a disk of ours
	cache   *cached.Store
	close   []func() error
}

// openStores opens the stores, creating what is not there, and locks the data
// folder for this process. The caller closes the stores.
func openStores(ctx context.Context, p places) (_ *stores, err error) {
	s := &stores{space: func(int64) error { return nil }}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.lock(p.Data); err != nil {
		return nil, err
	}
	bytesErr, err := s.openBytes(ctx, p)
	if err != nil {
		return nil, err
	}
	metaErr, err := s.openMeta(ctx, p.metaPlace, sqlstore.Options{})
	if errors.Is(err, metastore.ErrNoSpace) && os.Remove(filepath.Join(p.Data, ballastFile)) == nil {
		// Deletes, for which that room was set aside, need the start first.
		metaErr, err = s.openMeta(ctx, p.metaPlace, sqlstore.Options{})
	}
	if err != nil {
		return nil, err
	}
	s.ready = func(ctx context.Context) error { return errors.Join(metaErr(), bytesErr(ctx)) }
	if !p.shared() {
		s.ballast = &ballast{name: filepath.Join(p.Data, ballastFile), space: s.space}
		if err := s.ballast.restore(); err != nil {
			return nil, err
		}
	}
	if _, err := blob.Bind(ctx, s.meta, s.bytes); err != nil {
		return nil, fmt.Errorf("opening the instance: %w", err)
	}
	if !p.remote() && !p.shared() {
		return s, nil
	}
	if s.fence, err = blob.OpenFence(ctx, s.meta, s.bytes); err != nil {
		return nil, fmt.Errorf("opening the instance: %w", err)
	}
	s.ready = func(ctx context.Context) error { return errors.Join(metaErr(), bytesErr(ctx), s.fence.Err()) }
	return s, nil
}

// lock prepares the data folder and takes its lock.
func (s *stores) lock(dir string) error {
	if err := prepareFolder(dir); err != nil {
		return err
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return err
	}
	s.close = append(s.close, lock.Close)
	return nil
}

// openBytes opens where the bytes are. It returns what tells why they cannot be
// written now.
func (s *stores) openBytes(ctx context.Context, p places) (func(context.Context) error, error) {
	if !p.remote() {
		files, err := localfs.Open(filepath.Join(p.Data, bytesDir), localfs.Options{})
		if err != nil {
			return nil, fmt.Errorf("opening the bytes in %s: %w", p.Data, err)
		}
		s.bytes, s.space, s.bytesStopped = files, files.Space, files.Stopped()
		s.close = append(s.close, files.Close)
		return func(context.Context) error { return errors.Join(files.Err(), files.Space(0)) }, nil
	}
	config, err := s3.ParseDSN(p.Bytes)
	if err != nil {
		return nil, err
	}
	objects, err := s3.Open(ctx, config, s3.Options{Staging: filepath.Join(p.Data, stagingDir), StagingLimit: int64(p.StagingSize)})
	if err != nil {
		return nil, fmt.Errorf("opening the bytes: %w", err)
	}
	s.bytes = objects
	s.close = append(s.close, objects.Close)
	if p.Cache != "" {
		if s.cache, err = cached.Open(objects, p.Cache, cached.Options{Size: int64(p.CacheSize)}); err != nil {
			return nil, fmt.Errorf("opening the cache: %w", err)
		}
		s.bytes = s.cache
		s.close = append(s.close, s.cache.Close)
	}
	return objects.Ready, nil
}

// openMeta opens where the metadata is. It returns what tells why nothing can
// be written now.
func (s *stores) openMeta(ctx context.Context, p metaPlace, opt sqlstore.Options) (func() error, error) {
	var sql *sqlstore.Store
	var err error
	if p.shared() {
		if sql, err = sqlstore.OpenPostgres(ctx, p.Meta, opt); err != nil {
			return nil, fmt.Errorf("opening the metadata: %w", err)
		}
	} else {
		if err := makePrivate(filepath.Join(p.Data, metaFile)); err != nil {
			return nil, err
		}
		if sql, err = sqlstore.OpenSQLite(filepath.Join(p.Data, metaFile), opt); err != nil {
			return nil, fmt.Errorf("opening the metadata in %s: %w", p.Data, err)
		}
	}
	s.meta, s.metaStopped = sql, sql.Stopped()
	s.close = append(s.close, sql.Close)
	if p.shared() {
		return sql.Err, nil
	}
	// The entries of the database must not be lost once something is in it.
	if err := vfs.OS().SyncDir(p.Data); err != nil {
		return nil, fmt.Errorf("syncing the data folder: %w", err)
	}
	return sql.Err, nil
}

// openMeta opens the metadata alone, also while servers run on it; then it must
// be of this program's version (metastore.ErrOlder), since a schema does not
// change under a server. Where there is no metadata, create makes what the first
// start of a server would. The caller closes the stores.
func openMeta(ctx context.Context, p metaPlace, create bool) (_ *stores, err error) {
	s := &stores{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if p.shared() {
		_, err = s.openMeta(ctx, p, sqlstore.Options{Existing: !create})
		return s, err
	}
	name := filepath.Join(p.Data, metaFile)
	if _, err := os.Stat(name); !create && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no data in the folder %s: name another with --data DIR", p.Data)
	}
	if err := s.lock(p.Data); !errors.Is(err, errInUse) {
		if err == nil {
			_, err = s.openMeta(ctx, p, sqlstore.Options{})
		}
		return s, err
	}
	sql, err := sqlstore.OpenSQLite(name, sqlstore.Options{Existing: true})
	if err != nil {
		return nil, fmt.Errorf("opening the metadata in %s beside the server that runs there: %w", p.Data, err)
	}
	s.meta = sql
	s.close = append(s.close, sql.Close)
	return s, nil
}

// side is one side of a migration: stores that nobody serves, bound or not.
type side struct {
	*stores
	sql *sqlstore.Store // the metadata
}

// openSide opens one side of a migration, and locks its data folder if it has
// one. With existing, what is not there is an error, and is not made. mark, if it
// is not nil, is called with the bytes before there is any metadata. The caller
// closes the side.
func openSide(ctx context.Context, p places, existing bool, mark func(context.Context, bytestore.Store) error) (_ *side, err error) {
	s := &stores{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if existing {
		if err := p.exist(); err != nil {
			return nil, err
		}
	}
	if p.Data != "" {
		err = s.lock(p.Data)
	} else { // an object store stages its bodies in a folder
		p.Data, err = os.MkdirTemp("", "sluice-migrate-")
		s.close = append(s.close, func() error { return os.RemoveAll(p.Data) })
	}
	if err != nil {
		return nil, err
	}
	if _, err := s.openBytes(ctx, p); err != nil {
		return nil, err
	}
	if mark != nil {
		if err := mark(ctx, s.bytes); err != nil {
			return nil, err
		}
	}
	if _, err := s.openMeta(ctx, p.metaPlace, sqlstore.Options{Existing: existing}); err != nil {
		return nil, err
	}
	return &side{s, s.meta.(*sqlstore.Store)}, nil
}

// exist tells whether the data folder has the parts that should be in it.
func (p places) exist() error {
	for part, elsewhere := range map[string]bool{metaFile: p.Meta != "", bytesDir: p.Bytes != ""} {
		_, err := os.Stat(filepath.Join(p.Data, part))
		switch {
		case elsewhere:
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("the folder %s has no %s: it is not the data folder of an instance", p.Data, part)
		case err != nil:
			return fmt.Errorf("cannot read the data folder: %w", err)
		}
	}
	return nil
}

// Close closes what was opened, in reverse order.
func (s *stores) Close() error {
	var errs []error
	for i := len(s.close) - 1; i >= 0; i-- {
		errs = append(errs, s.close[i]())
	}
	s.close = nil
	return errors.Join(errs...)
}

// options are those of the blobs in these stores.
func (s *stores) options(p places, grace time.Duration) blob.Options {
	opt := blob.Options{Space: s.space, GarbageGrace: grace}
	if s.ballast != nil {
		opt.Relieve, opt.Restore = s.ballast.drop, s.ballast.restore
	}
	if s.fence != nil {
		opt.MayDelete = s.fence.MayDelete
	}
	if p.remote() {
		opt.ExtentSize = remoteExtentSize
	}
	return opt
}

// remoteExtentSize is the size of an object in an object store: a body is staged
// before it goes out, and a request that is repeated repeats all of it.
const remoteExtentSize = 16 << 20

// register makes metrics of what the stores tell.
func (s *stores) register(r prometheus.Registerer) {
	if s.cache == nil {
		return
	}
	for _, one := range []struct {
		name, help string
		value      func(cached.Stats) int64
	}{
		{"sluice_cache_hits_total", "Blocks that were in the cache when a reader needed them.", func(c cached.Stats) int64 { return c.Hits }},
		{"sluice_cache_misses_total", "Blocks that a reader waited for.", func(c cached.Stats) int64 { return c.Misses }},
		{"sluice_cache_evictions_total", "Blocks that made room for others.", func(c cached.Stats) int64 { return c.Evictions }},
		{"sluice_cache_damaged_total", "Blocks that were found damaged in the cache, and fetched anew.", func(c cached.Stats) int64 { return c.Damaged }},
		{"sluice_cache_errors_total", "Operations on the cache's folder that failed.", func(c cached.Stats) int64 { return c.Errors }},
	} {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: one.name, Help: one.help},
			func() float64 { return float64(one.value(s.cache.Stats())) }))
	}
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_cache_bytes", Help: "What the cache takes on its disk."},
		func() float64 { return float64(s.cache.Stats().Bytes) }))
}
