package cached

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

const (
	shards     = 256
	lockName   = "sluice-cache-lock"
	tempPrefix = ".put-" // no key contains a dot
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func shardName(i uint32) string { return fmt.Sprintf("%02x", i) }

// shard returns the folder of an object's blocks.
func (s *Store) shard(key bytestore.Key) string {
	return filepath.Join(s.dir, shardName(crc32.Checksum([]byte(key), castagnoli)%shards))
}

// name returns the name of the entry's file without its folder.
func (e *entry) name() string { return fmt.Sprintf("%s.%d.%016x", e.key, e.number, e.tag) }

func (s *Store) path(e *entry) string { return filepath.Join(s.shard(e.key), e.name()) }

// parseName returns the entry whose file has the given name and size in bytes. It returns
// false if there is no such entry.
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
	e := &entry{span{blockID{bytestore.Key(parts[0]), number}, size - headerSize}, tag}
	_, made := e.key.Created()
	return e, made && e.name() == name // a number has several spellings, of which name produces one
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

// ownsFolder reports whether this Store has the folder locked. If the folder was removed
// while the Store is open, it is created and locked again, unless another Store has done
// that.
func (s *Store) ownsFolder() bool {
	s.lockMu.Lock()
	defer s.lockMu.Unlock()
	if s.lock.Current() {
		return true
	}
	lock, err := lockFolder(s.fs, s.dir)
	if s.counts.noteError(err) {
		return false
	}
	s.counts.noteError(s.lock.Close())
	s.lock = lock
	for s.evict() { // the files were removed with the folder
	}
	return true
}

// checkFolder returns an error if the folder is neither empty nor a cache, because unknown
// files are removed from the shards.
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

// found is an entry and the time at which its file was written.
type found struct {
	*entry
	written time.Time
}

// load adds the files of an earlier Store to the index, and removes invalid and surplus
// ones.
func (s *Store) load() error {
	space, err := s.fs.Space(s.dir)
	if err != nil {
		return err
	}
	s.reserve = space.Reserve()
	var all []found
	for i := range uint32(shards) {
		if all, err = s.loadShard(all, filepath.Join(s.dir, shardName(i))); err != nil {
			return err
		}
	}
	// The time of the last read is unknown, so the time of the write is used.
	slices.SortFunc(all, func(a, b found) int { return a.written.Compare(b.written) })
	for _, f := range all {
		s.used += f.size()
		if other := s.blocks.add(f.entry); other != nil {
			s.discard(other)
		}
	}
	if !s.makeSpace(0) {
		return fmt.Errorf("files cannot be removed: %w", s.Err())
	}
	return nil
}

// loadShard appends the entries of a shard to all, and removes the other files.
func (s *Store) loadShard(all []found, dir string) ([]found, error) {
	files, err := s.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil // it is created with its first block
	}
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if file.IsDir() {
			continue
		}
		info, err := file.Info()
		if err != nil {
			return nil, err
		}
		e, ok := parseName(file.Name(), info.Size())
		if ok && info.Mode().IsRegular() && s.shard(e.key) == dir {
			all = append(all, found{e, info.ModTime()})
			continue
		}
		if err := ignoreNotExist(s.fs.Remove(filepath.Join(dir, file.Name()))); err != nil {
			return nil, err
		}
	}
	return all, nil
}
