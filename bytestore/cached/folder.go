package cached

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

const (
	shards     = 256
	lockName   = "sluice-cache-lock"
	tempPrefix = ".put-" // no name contains a dot
)

func shardName(i uint32) string { return fmt.Sprintf("%02x", i) }

// fileName returns the entry's file name without its folder.
func (e *entry) fileName() string { return fmt.Sprintf("%s.%d.%016x", e.object, e.number, e.tag) }

// parseName returns the entry for a file with the given name and size in bytes. It returns false if
// there is no such entry.
func parseName(name string, size int64) (*entry, bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 3 || size <= headerSize || size > headerSize+blockSize {
		return nil, false
	}
	number, numberErr := strconv.ParseInt(parts[1], 10, 64)
	tag, tagErr := strconv.ParseUint(parts[2], 16, 64)
	if numberErr != nil || tagErr != nil || number < 0 {
		return nil, false
	}
	e := &entry{span{blockID{bytestore.Name(parts[0]), number}, size - headerSize}, tag}
	_, made := e.object.Created()
	return e, made && e.fileName() == name // a number has several spellings; fileName produces one
}

// lockFolder creates the folder if necessary and locks it.
func lockFolder(fsys vfs.FS, dir string) (*vfs.Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := checkFolder(fsys, dir); err != nil {
		return nil, err
	}
	lock, err := vfs.LockFile(filepath.Join(dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, errors.New("another sluice uses this cache folder: stop that one, or name another folder")
	}
	return lock, err
}

// checkFolder returns an error if the folder is neither empty nor a cache, because unknown files
// are removed from the shards.
func checkFolder(fsys vfs.FS, dir string) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	foreign := ""
	for _, e := range entries {
		switch e.Name() {
		case lockName:
			return nil
		case "lost+found":
		default:
			foreign = e.Name()
		}
	}
	if foreign != "" {
		return fmt.Errorf("this is not a cache folder (it contains %q and no %s): name another folder, or empty it", foreign, lockName)
	}
	return nil
}

// ignoreNotExist returns nil for the error of removing a file that does not exist.
func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
