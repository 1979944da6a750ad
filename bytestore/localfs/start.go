package localfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"sluice/internal/vfs"
)

// Open opens the store in the folder dir, which it creates durably if necessary. It removes the
// temporary files of Puts that a crash interrupted, for which it lists the whole store. The caller
// must Close it.
func Open(dir string, opt Options) (*Store, error) {
	s, err := open(dir, opt)
	if err != nil {
		return nil, fmt.Errorf("localfs: open %s: %w", dir, err)
	}
	return s, nil
}

func open(dir string, opt Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := newStore(dir, opt)
	if err := s.checkJournal(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := s.createFolders(); err != nil {
		return nil, err
	}
	if err := s.removeLeftovers(); err != nil {
		return nil, err
	}
	s.space, err = newSpace(s.fs, s.root.path, opt.Reserve)
	return s, err
}

// createFolders creates the missing folders durably.
func (s *Store) createFolders() error {
	if err := vfs.MkdirAll(s.fs, s.root.path); err != nil {
		return err
	}
	for _, shard := range s.shards {
		if err := s.fs.Mkdir(shard.path); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	// Even if none was created: an earlier Open may have been interrupted before its sync, and an
	// object in this folder may have been renamed without a sync and is about to become visible to
	// callers.
	return s.fs.SyncDir(s.root.path)
}

// removeLeftovers removes the temporary files of interrupted Puts.
func (s *Store) removeLeftovers() error {
	for _, folder := range append(s.shards[:], s.root) {
		entries, err := s.fs.ReadDir(folder.path)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), tempPrefix) {
				continue
			}
			if err := s.fs.Remove(filepath.Join(folder.path, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// journalPrefix begins the names of files with objects that an earlier version acknowledged before
// the objects' own files were durable.
const journalPrefix = ".journal-"

// checkJournal returns an error if an earlier version was killed and has left such a file, and
// fs.ErrNotExist if there is no folder.
func (s *Store) checkJournal() error {
	entries, err := s.fs.ReadDir(s.root.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), journalPrefix) {
			return fmt.Errorf("%s has objects that an earlier version stored nowhere else: "+
				"start that version once more and stop it (commit 650c3281 can read this file)", filepath.Join(s.root.path, e.Name()))
		}
	}
	return nil
}
