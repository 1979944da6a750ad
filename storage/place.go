package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"sluice/bytestore"
	"sluice/bytestore/localfs"
	"sluice/bytestore/s3"
	"sluice/internal/vfs"
)

// placeLock is the file that the process which writes to a place for objects locks.
const placeLock = ".lock"

// OpenPlace opens a place for objects that is no instance's: a folder or an object store's DSN. To
// write to it, a folder is created and locked, and must be empty or have an object with the name
// mark: OpenPlace returns vfs.ErrLocked if another process writes to it. The caller must call
// closePlace.
func OpenPlace(ctx context.Context, place string, mark bytestore.Name, write bool) (_ bytestore.Store, closePlace func() error, err error) {
	if !write {
		if _, err := os.Stat(place); err != nil && !isObjectStore(place) {
			return nil, nil, err
		}
		objects, closePlace, err := openForReading(ctx, place)
		return objects, closePlace, err
	}
	if isObjectStore(place) {
		return openRemotePlace(ctx, place)
	}
	if err := requireMarked(place, mark); err != nil {
		return nil, nil, err
	}
	if err := vfs.MkdirAll(vfs.OS(), place); err != nil {
		return nil, nil, err
	}
	lock, err := vfs.LockFile(filepath.Join(place, placeLock))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", place, err)
	}
	s, err := localfs.Open(place, localfs.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, lock.Close())
	}
	return s, func() error { return errors.Join(s.Close(), lock.Close()) }, nil
}

// requireMarked returns an error if a folder has files and not the mark: it may be a data folder.
func requireMarked(place string, mark bytestore.Name) error {
	list, err := os.ReadDir(place)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(list) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	named := func(name string) bool {
		return slices.ContainsFunc(list, func(e fs.DirEntry) bool { return e.Name() == name })
	}
	if named(string(mark)) || named(placeLock) {
		return nil
	}
	return fmt.Errorf("the folder %s has other files, such as %s: name an empty one", place, list[0].Name())
}

func openRemotePlace(ctx context.Context, dsn string) (_ bytestore.Store, closePlace func() error, err error) {
	config, err := s3.ParseDSN(dsn)
	if err != nil {
		return nil, nil, err
	}
	staging, err := os.MkdirTemp("", "sluice-staging-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() error { return os.RemoveAll(staging) }
	s, err := s3.Open(ctx, config, s3.Options{Staging: staging})
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return s, func() error { return errors.Join(s.Close(), remove()) }, nil
}
