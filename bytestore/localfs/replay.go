package localfs

import (
	"crypto/rand"
	"errors"
	"io"
	"path/filepath"

	"sluice/bytestore"
	"sluice/bytestore/localfs/internal/journal"
	"sluice/internal/vfs"
)

// replay writes the files for all objects in a journal, and removes the journal. It writes each,
// even where a file with the same bytes can be read: after a failed sync, memory may have bytes
// that the disk lacks. If the process or the machine ends meanwhile, the next Open does it again.
func (s *Store) replay() error {
	log, err := journal.Read(s.fs, s.root.path)
	if err != nil || log.Empty() {
		return err
	}
	whole, err := s.fs.Whole(s.root.path)
	if errors.Is(err, errors.ErrUnsupported) {
		whole, err = nil, nil
	}
	if err != nil {
		return err
	}
	err = s.rewrite(log, whole)
	if whole != nil {
		err = errors.Join(err, whole.Close())
	}
	if err != nil {
		return err
	}
	s.damage = describe(log)
	return log.Remove()
}

// rewrite writes a journal's objects durably. whole may be nil.
func (s *Store) rewrite(log *journal.Log, whole vfs.Whole) error {
	var files []written
	for _, o := range log.Objects() {
		name := bytestore.Name(o.Name)
		if !name.Valid() {
			continue
		}
		temp := filepath.Join(s.folder(name).path, tempPrefix+rand.Text())
		err := s.copyOut(log, o, temp, whole == nil)
		if vfs.IsFull(err) {
			// The file that is there has the space that is missing, and no byte that the journal
			// does not have.
			err = errors.Join(s.remove(temp), s.remove(s.path(name)))
			if err == nil {
				err = s.copyOut(log, o, temp, whole == nil)
			}
		}
		if err != nil {
			return err
		}
		files = append(files, written{temp, name})
	}
	if whole != nil {
		if err := whole.Sync(); err != nil {
			return err
		}
	}
	folders := map[*folder]bool{}
	for _, f := range files {
		if err := s.fs.Replace(f.temp, s.path(f.name)); err != nil {
			return err
		}
		folders[s.folder(f.name)] = true
	}
	if whole != nil {
		return whole.Sync()
	}
	for f := range folders {
		if err := s.fs.SyncDir(f.path); err != nil {
			return err
		}
	}
	return nil
}

// copyOut writes an object from its journal to a new file, and syncs it if sync is set.
func (s *Store) copyOut(log *journal.Log, o journal.Object, temp string, sync bool) error {
	from, err := log.Open(o, 0)
	if err != nil {
		return err
	}
	to, err := s.fs.Create(temp)
	if err != nil {
		return errors.Join(err, from.Close())
	}
	_, err = io.Copy(to, io.LimitReader(from, o.Size))
	if err == nil && sync {
		err = to.Sync()
	}
	return errors.Join(err, to.Close(), from.Close())
}
