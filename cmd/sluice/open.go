package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/localfs"
	"sluice/internal/vfs"
	"sluice/metastore"
	"sluice/metastore/sqlstore"
)

// What a data folder holds.
const (
	lockFile = "lock"    // locked while a server runs
	metaFile = "meta.db" // SQLite, with its -wal and -shm beside it
	bytesDir = "bytes"   // localfs

	ballastFile = "ballast" // given up so that deletes work on a full disk
)

// stores are the opened stores of a data folder.
type stores struct {
	meta  metastore.Store
	bytes bytestore.Store
	space func(n int64) error // bytestore.ErrNoSpace when n bytes should not be taken in
	ready func() error        // why nothing can be written now

	ballast *ballast
	close   []func() error
}

// openData opens the data folder, creating what is not there, and locks it for
// this process. The caller closes the stores.
func openData(ctx context.Context, dir string) (_ *stores, err error) {
	if err := prepareFolder(dir); err != nil {
		return nil, err
	}
	s := &stores{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, lock.Close)

	files, err := localfs.Open(filepath.Join(dir, bytesDir), localfs.Options{})
	if err != nil {
		return nil, fmt.Errorf("opening the bytes in %s: %w", dir, err)
	}
	s.bytes, s.space = files, files.Space
	s.close = append(s.close, files.Close)

	s.ballast = &ballast{name: filepath.Join(dir, ballastFile), space: s.space}
	if err := makePrivate(filepath.Join(dir, metaFile)); err != nil {
		return nil, err
	}
	sql, err := sqlstore.OpenSQLite(filepath.Join(dir, metaFile), sqlstore.Options{})
	if err != nil {
		return nil, fmt.Errorf("opening the metadata in %s: %w", dir, err)
	}
	s.meta, s.ready = sql, func() error { return errors.Join(sql.Err(), files.Err(), files.Space(0)) }
	s.close = append(s.close, sql.Close)

	// The entries of the database must not be lost once something is in it.
	if err := vfs.OS().SyncDir(dir); err != nil {
		return nil, fmt.Errorf("syncing the data folder: %w", err)
	}
	if err := s.ballast.restore(); err != nil {
		return nil, err
	}
	if _, err := blob.Bind(ctx, s.meta, s.bytes); err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	return s, nil
}

// openMeta opens the metadata of a data folder, also while a server runs on it;
// then it must be of this program's version (metastore.ErrOlder), since a schema
// does not change under a server. Where there is no metadata, create makes what
// the first start of a server would. The caller closes the stores.
func openMeta(ctx context.Context, dir string, create bool) (*stores, error) {
	name := filepath.Join(dir, metaFile)
	if _, err := os.Stat(name); !create && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no data in the folder %s: name another with --data DIR", dir)
	}
	s, err := openData(ctx, dir)
	if !errors.Is(err, errInUse) {
		return s, err
	}
	sql, err := sqlstore.OpenSQLite(name, sqlstore.Options{Existing: true})
	if err != nil {
		return nil, fmt.Errorf("opening the metadata in %s beside the server that runs there: %w", dir, err)
	}
	return &stores{meta: sql, close: []func() error{sql.Close}}, nil
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

// prepareFolder creates the data folder, or checks that the one there is ours or
// empty: a typing error must not fill somebody's home.
func prepareFolder(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := vfs.MkdirAll(vfs.OS(), dir); err != nil {
		return fmt.Errorf("cannot create the data folder: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot read the data folder: %w", err)
	}
	foreign := ""
	for _, e := range entries {
		switch e.Name() {
		case metaFile:
			return nil
		case lockFile, bytesDir, ballastFile, "lost+found": // of a first start that was cut
		default:
			foreign = e.Name()
		}
	}
	if foreign != "" {
		return fmt.Errorf("the folder %s is not a data folder (it holds %q): name another with --data DIR", dir, foreign)
	}
	return nil
}

// makePrivate creates the database's file, if it is not there, for our eyes
// only: it holds ids that are as good as keys. SQLite gives the files beside it
// the same mode.
func makePrivate(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("cannot create the database: %w", err)
	}
	return f.Close()
}

// errInUse: another process has the data folder locked.
var errInUse = errors.New("is in use by another sluice")

// lockFolder takes the lock that keeps a second server out. The kernel lets it
// go when the process ends, however it ends.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the data folder: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("the data folder %s %w: stop that one, or name another folder with --data DIR", dir, errInUse), f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot lock the data folder %s: %w", dir, err), f.Close())
	}
	return f, nil
}
