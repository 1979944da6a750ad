package cached

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"
)

// found is an entry and the time at which its file was written.
type found struct {
	*entry
	written time.Time
}

// load adds an earlier Store's files to the index, and removes invalid and surplus ones.
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
	// When a file was last read is unknown, so the time when it was written is used.
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

// loadShard appends a shard's entries to all, and removes the other files.
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
		if ok && info.Mode().IsRegular() && s.shard(e.object) == dir {
			all = append(all, found{e, info.ModTime()})
			continue
		}
		if err := ignoreNotExist(s.fs.Remove(filepath.Join(dir, file.Name()))); err != nil {
			return nil, err
		}
	}
	return all, nil
}
