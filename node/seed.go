package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"sluice/blob"
	"sluice/client/folder/tree"
	"sluice/metastore"
)

// Seeded counts the blobs that a node has stored at its start from the folder Config.Seed.
type Seeded struct {
	Blobs    int   // that were stored
	Bytes    int64 // of them
	Accounts int   // that have a file in the folder
	Kept     int   // blobs with the same name that existed, and were not changed
	Skipped  []tree.Skipped
}

// seedWriters is how many files are stored concurrently.
const seedWriters = 8

// seed stores a folder's files: DIR/ACCOUNT/NAME becomes the blob NAME of ACCOUNT. Blobs that exist
// are kept. Symbolic links are not followed, and files with a path that is not a valid name are
// skipped.
func seed(ctx context.Context, blobs *blob.Service, dir string) (_ Seeded, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Seeded{}, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	files, skipped, err := tree.List(root, func(string) bool { return false })
	if err != nil {
		return Seeded{}, err
	}
	s := &seeder{blobs: blobs, root: root, accounts: map[string]string{}}
	s.done.Skipped = skipped
	sources := s.sources(files)
	next := make(chan source)
	var writers sync.WaitGroup
	for range seedWriters {
		writers.Go(func() {
			for one := range next {
				size, err := s.store(ctx, one)
				s.add(one, size, err)
			}
		})
	}
	for _, one := range sources {
		next <- one
	}
	close(next)
	writers.Wait()
	s.done.Accounts = len(s.accounts)
	return s.done, s.err
}

// seeder stores a folder's files.
type seeder struct {
	blobs    *blob.Service
	root     *os.Root
	accounts map[string]string // the folder of each account

	mu   sync.Mutex
	done Seeded
	err  error // the first one
}

// source is a file and the blob that it becomes.
type source struct {
	tree.File

	account, name string
}

// sources returns the files that become blobs. The other files are skipped.
func (s *seeder) sources(files []tree.File) (valid []source) {
	for _, f := range files {
		one, err := s.source(f)
		if err != nil {
			s.done.Skipped = append(s.done.Skipped, tree.Skipped{Name: f.Name, Err: err})
			continue
		}
		valid = append(valid, one)
	}
	return valid
}

func (s *seeder) source(f tree.File) (source, error) {
	top, name, inFolder := strings.Cut(f.Name, "/")
	if !inFolder {
		return source{}, errors.New("it is in no folder, which would name the account")
	}
	account, err := blob.ParseAccount(top)
	if err != nil {
		return source{}, err
	}
	if err := blob.CheckName(name); err != nil {
		return source{}, err
	}
	if other, exists := s.accounts[account]; exists && other != top {
		return source{}, fmt.Errorf("the folders %q and %q are the same account", other, top)
	}
	s.accounts[account] = top
	return source{f, account, name}, nil
}

// store stores a blob, and returns its size, or blob.ErrExists if there is one of its name.
func (s *seeder) store(ctx context.Context, one source) (size int64, err error) {
	f, err := tree.Open(s.root, filepath.FromSlash(one.Name))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	contentType, err := tree.ContentTypeOf(one.name, f)
	if err != nil {
		return 0, err
	}
	if size, err = tree.SizeOf(f); err != nil {
		return 0, err
	}
	put := blob.PutOptions{Account: one.account, Name: one.name, ContentType: contentType, Precondition: mustNotExist}
	stored, err := s.blobs.Put(ctx, put, f, size) // negative: up to its end
	return stored.Size, err
}

func mustNotExist(current *metastore.Blob) error {
	if current != nil {
		return blob.ErrExists
	}
	return nil
}

// add counts a file's outcome.
func (s *seeder) add(one source, size int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.done.Blobs++
		s.done.Bytes += size
	case errors.Is(err, blob.ErrExists):
		s.done.Kept++
	default:
		s.err = cmp.Or(s.err, fmt.Errorf("cannot store %s: %w", one.Name, err))
	}
}
