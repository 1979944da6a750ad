package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"sluice/internal/vfs"
)

// ballastSize is enough for the database's log to grow by some thousand deletes.
const ballastSize = 8 << 20

// Ballast is a file that reserves disk space. When the disk is full, the file is removed so that
// deletes can be logged; it is created again when there is space. It is safe for concurrent use.
type Ballast struct {
	name  string
	space func(n int64) error
	mu    sync.Mutex
}

// Ballast returns the folder's ballast. The function space returns an error if n more bytes should
// not be written to the disk. The file is created by Restore.
func (d *Dir) Ballast(space func(n int64) error) *Ballast {
	return &Ballast{name: d.Path(ballastFile), space: space}
}

// Drop removes the file, and reports whether there was one.
func (b *Ballast) Drop() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return os.Remove(b.name) == nil
}

// Restore creates the file if it does not exist or was not completed, unless the disk has less than
// twice its size to spare, or turns out to be full.
func (b *Ballast) Restore() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	info, err := os.Stat(b.name)
	if err == nil && info.Size() == ballastSize || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if b.space(2*ballastSize) != nil {
		return nil // later
	}
	err = fill(b.name, ballastSize)
	if err == nil {
		return nil
	}
	removeErr := os.Remove(b.name)
	if errors.Is(removeErr, fs.ErrNotExist) {
		removeErr = nil
	}
	if vfs.IsFull(err) { // by a quota, or since space was called
		return removeErr
	}
	return errors.Join(fmt.Errorf("cannot reserve space for deletes: %w", err), removeErr)
}

// fill writes a file of zeros; a sparse file would reserve no space.
func fill(name string, size int) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for range size / len(block) {
		if _, err := f.Write(block); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(f.Sync(), f.Close())
}
