package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// ballastSize is what is set aside for deletes: room for the log of the
// metadata to grow by some thousand of them.
const ballastSize = 8 << 20

// ballast is a file that takes up room on the disk. When even the reserve is
// gone, whoever has used it up, it is given up so that deletes can be written
// down; it comes back when there is room again.
type ballast struct {
	name  string
	space func(n int64) error
	mu    sync.Mutex
}

// drop gives the room back. It reports whether there was any.
func (b *ballast) drop() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return os.Remove(b.name) == nil
}

// restore takes the room, if it is not taken and there is plenty.
func (b *ballast) restore() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := os.Stat(b.name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if b.space(2*ballastSize) != nil {
		return nil // not now
	}
	if err := fill(b.name, ballastSize); err != nil {
		return errors.Join(fmt.Errorf("setting room for deletes aside: %w", err), os.Remove(b.name))
	}
	return nil
}

// fill writes a file of zeros; a sparse one would take no room.
func fill(name string, size int) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
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
