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
	tempPrefix = ".put-" // the dot keeps it apart from all keys

	// The file system keeps maxReserve free, or 1/smallShare of a small one.
	maxReserve = 64 << 20
	smallShare = 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func shardName(i uint32) string { return fmt.Sprintf("%02x", i) }

// shard is the folder of an object's blocks.
func (s *Store) shard(key bytestore.Key) string {
	return filepath.Join(s.dir, shardName(crc32.Checksum([]byte(key), castagnoli)%shards))
}

// name is the entry's file, without its folder.
func (e *entry) name() string { return fmt.Sprintf("%s.%d.%016x", e.key, e.number, e.tag) }

func (s *Store) path(e *entry) string { return filepath.Join(s.shard(e.key), e.name()) }

// parseName is the entry whose file has the name and so many bytes; false when
// no entry's has.
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
	return e, made && e.name() == name // of the spellings of a number one is ours
}

// lockFolder creates the folder if necessary and locks it against other Stores.
func lockFolder(fsys vfs.FS, dir string) (*vfs.Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := checkOurs(fsys, dir); err != nil {
		return nil, err
	}
	lock, err := vfs.LockFile(filepath.Join(dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, errors.New("another sluice uses this cache folder: stop that one, or name another folder")
	}
	return lock, err
}

// keepsFolder reports whether the folder is this Store's. One that was removed
// while the Store is open is made and locked anew, unless another Store has
// done so before.
func (s *Store) keepsFolder() bool {
	s.folder.Lock()
	defer s.folder.Unlock()
	if s.lock.Current() {
		return true
	}
	lock, err := lockFolder(s.fs, s.dir)
	if s.counts.trouble(err) {
		return false
	}
	s.counts.trouble(s.lock.Close())
	s.lock = lock
	for s.evict() { // what the index knows of has gone with the folder
	}
	return true
}

// checkOurs refuses a folder that is neither empty nor a cache: files that are
// not known are removed from its shards.
func checkOurs(fsys vfs.FS, dir string) error {
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
		return fmt.Errorf("this is not a cache folder (it holds %q and no %s): name another, or empty it", foreign, lockName)
	}
	return nil
}

// found is an entry and when its file was written.
type found struct {
	*entry
	written time.Time
}

// load takes the files of an earlier Store in, and removes those that are none
// or too many.
func (s *Store) load() error {
	space, err := s.fs.Space(s.dir)
	if err != nil {
		return err
	}
	s.reserve = min(maxReserve, space.Size/smallShare)
	var all []found
	for i := range uint32(shards) {
		if all, err = s.loadShard(all, filepath.Join(s.dir, shardName(i))); err != nil {
			return err
		}
	}
	// When they were read last is not known; when they were written is.
	slices.SortFunc(all, func(a, b found) int { return a.written.Compare(b.written) })
	for _, f := range all {
		s.used += f.size()
		if other := s.blocks.add(f.entry); other != nil {
			s.discard(other)
		}
	}
	if !s.makeRoom(0) {
		return fmt.Errorf("the files to be removed cannot be: %w", s.Err())
	}
	return nil
}

// loadShard appends the entries of a shard to all, and removes its other files.
func (s *Store) loadShard(all []found, dir string) ([]found, error) {
	files, err := s.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil // it is made for its first block
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
		if err := removed(s.fs.Remove(filepath.Join(dir, file.Name()))); err != nil {
			return nil, err
		}
	}
	return all, nil
}
