package storage

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"sluice/bytestore"
	"sluice/bytestore/localfs"
	"sluice/bytestore/s3"
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
		s.healFrom = source.open
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
		s.healFrom = files.OpenMedium
		s.close = append(s.close, files.Close)
		return nil
	}
}

// remoteSource is an object store that is connected to when it is used first.
type remoteSource struct {
	config s3.Config
	mu     sync.Mutex
	reader *s3.Reader // nil until then
}

func (r *remoteSource) open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	reader, err := r.connected(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", bytestore.ErrOverloaded, err)
	}
	return reader.Open(ctx, name, off, n)
}

func (r *remoteSource) connected(ctx context.Context) (_ *s3.Reader, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reader == nil {
		r.reader, err = s3.OpenReader(ctx, r.config, s3.Options{})
	}
	return r.reader, err
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
