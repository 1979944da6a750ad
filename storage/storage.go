// Package storage opens an instance's stores. No other package names the implementations of
// whole.Database and bytestore.Store.
package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/cached"
	"sluice/bytestore/localfs"
	"sluice/bytestore/s3"
	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/database/whole"
	"sluice/history"
	"sluice/integrity"
	"sluice/internal/datadir"
	"sluice/internal/task"
	"sluice/internal/vfs"
)

// Stores are an instance's open stores. The caller must Close them.
type Stores struct {
	Meta  whole.Database
	Bytes bytestore.Store

	// Space returns bytestore.ErrNoSpace if n more bytes should not be accepted.
	Space func(n int64) error
	// Conditions must hold for writes to be possible.
	Conditions []Condition
	// Disk returns the space on the data folder's file system, and how many of its free bytes are
	// kept in reserve.
	Disk func() (now vfs.Space, reserve int64, err error)
	// MetaStopped and BytesStopped are closed when the store accepts no writes
	// until it is opened again. They are nil if the store has no such state.
	MetaStopped, BytesStopped <-chan struct{}
	// MigratedFrom and MigratedTo are the schema before and after Open, if it has migrated the
	// metadata, and otherwise 0.
	MigratedFrom, MigratedTo int64
	// History permits changes. It is nil unless Open or OpenRepairer has opened the stores.
	History *history.History
	// Look is the check that Open has made before it used the database. OpenEndpoint checks the
	// pages alone.
	Look Look

	medium   bytestore.OpenFunc // opens stored bytes past the caches
	remote   bool
	sql      *sqlstore.Store
	objects  *s3.Store            // nil if the bytes are in the data folder
	cache    *cached.Store        // nil: none
	files    *localfs.Store       // nil if the bytes are in an object store
	record   func() error         // that the database is whole; set by OpenEndpoint alone, if it is in the folder
	healFrom integrity.HealSource // nil: none
	ballast  *datadir.Ballast     // nil if the metadata is not in the data folder
	leave    func() error         // datadir.Dir.Leave; nil unless Open has opened the stores
	close    []func() error
}

// Condition is a condition under which writes are possible.
type Condition struct {
	Name  ConditionName
	Check func(context.Context) error // returns why it does not hold, or nil
}

// ConditionName identifies a Condition.
type ConditionName string

// The stores' conditions.
const (
	MetadataWritable ConditionName = "metadata" // the database accepts writes
	BytesWritable    ConditionName = "bytes"    // the byte store accepts objects
	SpaceLeft        ConditionName = "space"    // the disk has more than its reserve
	MayChange        ConditionName = "history"  // no other database uses the same bytes, and nothing was set back
)

// ConditionNames are the names of all conditions that stores can have.
var ConditionNames = []ConditionName{MetadataWritable, BytesWritable, SpaceLeft, MayChange}

// Ready returns the reason why nothing can be written now, or nil.
func (s *Stores) Ready(ctx context.Context) error {
	var errs []error
	for _, c := range s.Conditions {
		errs = append(errs, c.Check(ctx))
	}
	return errors.Join(errs...)
}

// require adds a condition that needs no context.
func (s *Stores) require(name ConditionName, check func() error) {
	s.Conditions = append(s.Conditions, Condition{name, func(context.Context) error { return check() }})
}

// Open opens an instance's stores for a node, creates what does not exist, and locks the data
// folder. It waits up to two seconds for a command that uses the folder, or a node that has called
// Leave. If another node uses the folder, it returns datadir.ErrServed at once.
//
// If the database's file is not the one that is recorded as whole, Open checks all of it and looks
// for all objects, which takes as long as that takes. It returns ErrDamaged for damaged pages, and
// History reports a setback if objects are missing. Otherwise a quick check
// begins, for which Open waits up to 5 seconds; it goes on until Close.
func Open(ctx context.Context, l Location, opt Options) (_ *Stores, err error) {
	opt = opt.withFunctions()
	s := &Stores{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	var dir *datadir.Dir
	err = retry(ctx, func() (err error) {
		dir, err = s.openDir(l.Data, datadir.OpenForServer)
		return err
	}, datadir.ErrInUse) // perhaps by a command that ends soon, such as sluice key
	if err != nil {
		return nil, err
	}
	s.leave = dir.Leave
	if err := s.openBytes(ctx, l, dir, opt); err != nil {
		return nil, err
	}
	if err := s.openHealSource(opt.HealFrom); err != nil {
		return nil, fmt.Errorf("--heal-from: %w", err)
	}
	if opt.Database != "" {
		if dir, err = s.openDir(opt.Database, datadir.Open); err != nil {
			return nil, err
		}
	}
	inFolder := !l.Shared() && opt.Database == "" // and not, as an ephemeral one, in memory
	if inFolder {
		space := s.Space
		if l.Remote() {
			space = s.spare
		}
		s.ballast = dir.Ballast(space)
	}
	if inFolder && datadir.HasDatabase(l.Data) {
		if s.Look, err = lookAtPages(ctx, dir, opt.Looking); err != nil {
			return nil, err
		}
	}
	// The folder is locked, and commands that open a database beside its server change no blobs.
	options := sqlstore.Options{BlobCache: opt.BlobCache}
	err = s.openMeta(ctx, l, dir, options)
	if errors.Is(err, database.ErrNoSpace) && s.ballast != nil && s.ballast.Drop() {
		// The disk is full. Deletes can free space only if the database opens.
		err = s.openMeta(ctx, l, dir, options)
	}
	if err != nil {
		return nil, err
	}
	if s.ballast != nil {
		if err := s.ballast.Restore(); err != nil {
			return nil, err
		}
	}
	if _, err := history.Bind(ctx, s.Meta, s.Bytes); err != nil {
		return nil, fmt.Errorf("opening the instance: %w", err)
	}
	if s.Look.Why != "" {
		if err := s.Look.lookAtObjects(ctx, dir, s.sql, s.Bytes, opt.Node, opt.Looking); err != nil {
			return nil, err
		}
	}
	if err := s.openHistory(ctx, l, opt); err != nil {
		return nil, fmt.Errorf("opening the instance: %w", err)
	}
	if inFolder && s.Look.Why == "" {
		stop := startQuickCheck(quickWait, s.sql.QuickCheck, func(err error) {
			if errors.Is(err, sqlstore.ErrCorrupt) {
				err = errors.Join(err, dir.RecordDamaged())
			}
			opt.Damaged(err)
		})
		s.AtClose(func() error { stop(); return nil })
	}
	return s, nil
}

// openHistory opens the History, which permits commits.
func (s *Stores) openHistory(ctx context.Context, l Location, opt Options) error {
	shared := true
	if !l.Remote() && !l.Shared() {
		// The lock on the bytes excludes other processes on this machine. It excludes neither other
		// machines' processes nor a copy of the database that runs when the original does not.
		elsewhere, err := datadir.BytesElsewhere(l.Data)
		if err != nil {
			return err
		}
		shared = elsewhere
	}
	var err error
	s.History, err = history.Open(ctx, s.Meta, s.Bytes, history.Options{Shared: shared, Node: opt.Node, Done: opt.Done})
	if err != nil {
		return err
	}
	s.require(MayChange, s.History.Err)
	s.sql.Guard(s.History.Commit)
	return nil
}

// OpenMeta opens the metadata alone, which is possible while nodes run on it. If the schema is
// older or newer than this version's, OpenMeta returns database.ErrOlder or database.ErrNewer and
// changes nothing: only a node that starts migrates. If there is no metadata, OpenMeta creates it
// if create is set, and returns an error otherwise. If a node is starting in the same folder,
// OpenMeta waits up to two seconds until the node has created or migrated the metadata.
func OpenMeta(ctx context.Context, l Location, create bool) (_ *Stores, err error) {
	s := &Stores{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	options := sqlstore.Options{Schema: sqlstore.Keep}
	if create {
		options.Schema = sqlstore.Create
	}
	if l.Shared() {
		err = s.openMeta(ctx, l, nil, options)
		return s, err
	}
	if !create && !datadir.HasDatabase(l.Data) {
		return nil, fmt.Errorf("%w %s: name another with --data DIR", ErrNoInstance, l.Data)
	}
	dir, err := s.openDir(l.Data, datadir.Open)
	if err == nil {
		err = s.openMeta(ctx, l, dir, options)
	}
	if !errors.Is(err, datadir.ErrInUse) {
		return s, err
	}
	if err := s.openBeside(ctx, l.Data, sqlstore.Options{Schema: sqlstore.Keep}); err != nil {
		return nil, fmt.Errorf("opening the metadata in %s while a server runs there: %w", l.Data, err)
	}
	return s, nil
}

// openBeside opens the metadata in a folder that a server may be using, as it is.
func (s *Stores) openBeside(ctx context.Context, data string, opt sqlstore.Options) error {
	var sql *sqlstore.Store
	err := retry(ctx, func() (err error) {
		sql, err = sqlstore.OpenSQLite(filepath.Join(data, datadir.Database), opt)
		return err
	}, fs.ErrNotExist, database.ErrOlder) // perhaps for as long as the server starts
	if err == nil {
		s.use(sql)
	}
	return err
}

// These bound for how long retry waits for another process that uses the same folder.
const (
	retries    = 40
	retryEvery = 50 * time.Millisecond
)

// retry calls fn until it returns no error that may pass, for about two seconds at most.
func retry(ctx context.Context, fn func() error, passing ...error) error {
	for attempt := 0; ; attempt++ {
		err := fn()
		passes := slices.ContainsFunc(passing, func(one error) bool { return errors.Is(err, one) })
		if !passes || attempt == retries || task.Wait(ctx, retryEvery) != nil {
			return err
		}
	}
}

// The properties that hold when a backup of the instance succeeded and failed last, in seconds
// since 1970.
const (
	BackupSucceeded = "backup-succeeded"
	BackupFailed    = "backup-failed"
)

// ErrNoInstance is returned by OpenMeta if the folder has no instance.
var ErrNoInstance = errors.New("there is no data in the folder")

// spare returns bytestore.ErrNoSpace unless the disk with the data folder has n bytes above its
// reserve.
func (s *Stores) spare(n int64) error {
	now, reserve, err := s.Disk()
	if err == nil && now.Free-reserve < n {
		err = bytestore.ErrNoSpace
	}
	return err
}

func (s *Stores) openDir(path string, open func(string) (*datadir.Dir, error)) (*datadir.Dir, error) {
	dir, err := open(path)
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, dir.Close)
	return dir, nil
}

func (s *Stores) openBytes(ctx context.Context, l Location, dir *datadir.Dir, opt Options) error {
	if !l.Remote() {
		if err := dir.LockBytes(); err != nil {
			return err
		}
		files, err := localfs.Open(dir.Path(datadir.Bytes), localfs.Options{OpenFiles: opt.OpenFiles})
		if err != nil {
			return fmt.Errorf("opening the bytes in %s: %w", l.Data, err)
		}
		s.Bytes, s.Space, s.BytesStopped, s.Disk = files, files.Space, files.Stopped(), files.Disk
		s.medium, s.files = files.OpenMedium, files
		s.close = append(s.close, files.Close)
		s.require(BytesWritable, files.Err)
		s.require(SpaceLeft, func() error { return files.Space(0) })
		return nil
	}
	config, err := s3.ParseDSN(l.Bytes)
	if err != nil {
		return err
	}
	objects, err := s3.Open(ctx, config, s3.Options{Staging: dir.Path(datadir.Staging), StagingLimit: opt.StagingSize})
	if err != nil {
		return fmt.Errorf("opening the bytes: %w", err)
	}
	s.Bytes, s.Space, s.objects, s.remote = objects, func(int64) error { return nil }, objects, true
	s.medium = objects.Open
	s.Disk = func() (now vfs.Space, reserve int64, err error) {
		now, err = vfs.OS().Space(l.Data)
		return now, 0, err
	}
	s.close = append(s.close, objects.Close)
	s.Conditions = append(s.Conditions, Condition{BytesWritable, objects.Ready})
	if opt.Cache != "" {
		if s.cache, err = cached.Open(objects, opt.Cache, cached.Options{Size: opt.CacheSize}); err != nil {
			return fmt.Errorf("opening the cache: %w", err)
		}
		s.Bytes = s.cache
		s.close = append(s.close, s.cache.Close)
	}
	return nil
}

func (s *Stores) openMeta(ctx context.Context, l Location, dir *datadir.Dir, opt sqlstore.Options) error {
	if l.Shared() {
		sql, err := sqlstore.OpenPostgres(ctx, l.Meta, opt)
		if err != nil {
			return fmt.Errorf("opening the metadata: %w", err)
		}
		s.use(sql)
		return nil
	}
	created, err := dir.CreateDatabase()
	if err != nil {
		return err
	}
	sql, err := sqlstore.OpenSQLite(dir.Path(datadir.Database), opt)
	if errors.Is(err, sqlstore.ErrCorrupt) {
		err = errors.Join(fmt.Errorf("%w; %w", ErrDamaged, err), dir.RecordDamaged())
	}
	if err != nil {
		return fmt.Errorf("opening the metadata in %s: %w", dir.Path(""), err)
	}
	s.use(sql)
	if created {
		return dir.RecordWhole()
	}
	return dir.Sync()
}

// Schema is the schema.s number with which this program works.
func Schema() int { return sqlstore.Schema() }

func (s *Stores) use(sql *sqlstore.Store) {
	s.Meta, s.MetaStopped, s.sql = sql, sql.Stopped(), sql
	if from, to := sql.Migrated(); from > 0 && from < to {
		s.MigratedFrom, s.MigratedTo = from, to
	}
	s.close = append(s.close, sql.Close)
	s.require(MetadataWritable, sql.Err)
}

// AtClose adds a function that Close calls before it closes the stores.
func (s *Stores) AtClose(fn func() error) { s.close = append(s.close, fn) }

// Leave announces that this node is about to Close the stores: a node that is started on the data
// folder now waits for that. Only stores from Open may be left.
func (s *Stores) Leave() error { return s.leave() }

// Close closes everything that was opened, in reverse order.
func (s *Stores) Close() error {
	var errs []error
	for i := len(s.close) - 1; i >= 0; i-- {
		errs = append(errs, s.close[i]())
	}
	s.close = nil
	return errors.Join(errs...)
}

// BlobOptions returns a blob service's options for these stores.
func (s *Stores) BlobOptions() blob.Options {
	opt := blob.Options{Space: s.Space, OpenStored: s.medium, HealFrom: s.healFrom}
	if s.ballast != nil {
		opt.Relieve, opt.Restore = s.ballast.Drop, s.ballast.Restore
	}
	opt.MayDelete, opt.KeptBefore, opt.NewID = s.History.MayDelete, s.History.KeptBefore, s.History.NewID
	if s.remote {
		opt.ExtentSize = remoteExtentSize
	}
	return opt
}
