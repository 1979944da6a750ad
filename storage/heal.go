package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"sluice/backup"
	"sluice/bytestore"
	"sluice/bytestore/localfs"
	"sluice/bytestore/s3"
	"sluice/history"
	"sluice/integrity"
	"sluice/internal/datadir"
)

// ValidateHealFrom reports an error in Options.HealFrom for an instance at this location. It
// repeats no DSN, which may contain a password.
func (l Location) ValidateHealFrom(from string) error {
	if !isObjectStore(from) {
		return nil
	}
	if _, err := s3.ParseDSN(from); err != nil {
		return fmt.Errorf("--heal-from: %w", err)
	}
	if from == l.Bytes {
		return fmt.Errorf("--heal-from: must be another store than --bytes")
	}
	return nil
}

func isObjectStore(from string) bool { return strings.HasPrefix(from, "s3://") }

// openHealSource opens the second store, if there is one. An object store need not be reachable
// until it is used.
func (s *Stores) openHealSource(from string) error {
	switch {
	case from == "":
		return nil
	case isObjectStore(from):
		config, err := s3.ParseDSN(from)
		if err != nil {
			return err
		}
		source := &remoteSource{config: config}
		s.healFrom = healSource{bytestore.ReadOnly{Reader: source}}
		s.close = append(s.close, source.close)
		return nil
	default:
		if inside := filepath.Join(from, datadir.Bytes); isFolder(inside) {
			from = inside
		}
		files, err := localfs.OpenReader(from, localfs.Options{})
		if err != nil {
			return err
		}
		s.healFrom = healSource{bytestore.ReadOnly{Reader: medium{files}}}
		s.close = append(s.close, files.Close)
		return nil
	}
}

// healSource is a place with backups, or with objects under the same names as the instance's.
type healSource struct{ bytes bytestore.Store }

// errNoSource is returned if a place has nothing of any instance.
var errNoSource = fmt.Errorf("the place has neither backups (the object %s) nor a copy of the instance's objects (with %s)", backup.RepositoryObject, history.InstanceObject)

// Require implements integrity.HealSource.
func (s healSource) Require(ctx context.Context, instance string) error {
	repo := backup.Repository{Bytes: s.bytes}
	backups, err := repo.Exists(ctx)
	if err != nil {
		return err
	}
	if backups {
		err = repo.RequireInstance(ctx, instance)
		if errors.Is(err, backup.ErrForeign) {
			err = fmt.Errorf("%w: %w", history.ErrForeignStore, err)
		}
		return err
	}
	id, err := history.ReadID(ctx, s.bytes.Open, history.InstanceObject)
	switch {
	case err != nil:
		return err
	case id == "":
		return errNoSource
	case id != instance:
		return fmt.Errorf("%w: it belongs to the instance %s, not to %s", history.ErrForeignStore, id, instance)
	}
	return nil
}

// Open implements integrity.HealSource.
func (s healSource) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	return s.bytes.Open(ctx, name, off, n)
}

// Bodies implements integrity.HealSource. Only backups have bodies.
func (s healSource) Bodies(ctx context.Context, search integrity.BodySearch) error {
	repo := backup.Repository{Bytes: s.bytes}
	if backups, err := repo.Exists(ctx); err != nil || !backups {
		return err
	}
	return repo.FindBodies(ctx, search)
}

// medium reads from the disk, not from the page cache.
type medium struct{ *localfs.Reader }

// Open implements bytestore.Reader.
func (m medium) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	return m.OpenMedium(ctx, name, off, n)
}

// remoteSource is an object store that is connected to when it is used first.
type remoteSource struct {
	config s3.Config
	mu     sync.Mutex
	reader *s3.Reader // nil until then
}

// Open implements bytestore.Reader.
func (r *remoteSource) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	reader, err := r.connected(ctx)
	if err != nil {
		return nil, err
	}
	return reader.Open(ctx, name, off, n)
}

// List implements bytestore.Reader.
func (r *remoteSource) List(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
	reader, err := r.connected(ctx)
	if err != nil {
		return err
	}
	return reader.List(ctx, after, fn)
}

func (r *remoteSource) connected(ctx context.Context) (*s3.Reader, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reader == nil {
		reader, err := s3.OpenReader(ctx, r.config, s3.Options{})
		if err != nil {
			return nil, fmt.Errorf("%w: %w", bytestore.ErrOverloaded, err)
		}
		r.reader = reader
	}
	return r.reader, nil
}

func (r *remoteSource) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reader == nil {
		return nil
	}
	return r.reader.Close()
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
