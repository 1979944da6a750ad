package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"sluice/internal/vfs"
)

// What a data folder holds.
const (
	lockFile = "lock"    // locked while a server runs
	metaFile = "meta.db" // SQLite, with its -wal and -shm beside it
	bytesDir = "bytes"   // localfs

	ballastFile = "ballast" // given up so that deletes work on a full disk
	stagingDir  = "staging" // bodies on their way to an object store
	returnsDir  = "returns" // what was charged, not served, and could not be given back yet
)

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
		case lockFile, bytesDir, ballastFile, stagingDir, returnsDir, "lost+found": // of a first start that was cut
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
