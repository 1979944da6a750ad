package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/database"
	"sluice/database/whole"
	"sluice/ledger"
	"sluice/metastore"
)

// failingMeta is a database. While err is set, its writes fail as over a lost connection. A write
// with an unknown outcome takes effect.
type failingMeta struct {
	whole.Database
	err        atomic.Pointer[error]
	noSessions atomic.Bool // sessions cannot be listed
	committing func()      // is called before a blob is committed, unless it is nil
}

// fail makes all writes fail with this error, or with nil none.
func (s *failingMeta) fail(err error) { s.err.Store(&err) }

// answered returns the result of a write, or the error with which it fails.
func answered[T any](s *failingMeta, write func() (T, error)) (none T, err error) {
	fails := s.err.Load()
	if fails == nil || *fails == nil {
		return write()
	}
	if errors.Is(*fails, database.ErrUnknownOutcome) {
		if out, err := write(); err != nil {
			return out, err
		}
	}
	return none, *fails
}

func (s *failingMeta) CommitBlob(
	ctx context.Context, b metastore.Blob, extents []metastore.Extent, p metastore.Precondition,
) (metastore.Blob, error) {
	if s.committing != nil {
		s.committing()
	}
	return answered(s, func() (metastore.Blob, error) { return s.Database.CommitBlob(ctx, b, extents, p) })
}

func (s *failingMeta) CopyBlob(ctx context.Context, c metastore.Copy) (metastore.Blob, error) {
	return answered(s, func() (metastore.Blob, error) { return s.Database.CopyBlob(ctx, c) })
}

func (s *failingMeta) MoveBlob(ctx context.Context, m metastore.Move) (metastore.Blob, error) {
	return answered(s, func() (metastore.Blob, error) { return s.Database.MoveBlob(ctx, m) })
}

func (s *failingMeta) BeginUpload(ctx context.Context, u metastore.Upload) (metastore.Upload, error) {
	return answered(s, func() (metastore.Upload, error) { return s.Database.BeginUpload(ctx, u) })
}

func (s *failingMeta) PutPart(
	ctx context.Context, id string, part metastore.Part, extents []metastore.Extent,
) error {
	_, err := answered(s, func() (any, error) { return nil, s.Database.PutPart(ctx, id, part, extents) })
	return err
}

func (s *failingMeta) CreateSession(
	ctx context.Context, one ledger.Session, idem *database.Idempotency,
) (ledger.Session, error) {
	return answered(s, func() (ledger.Session, error) { return s.Database.CreateSession(ctx, one, idem) })
}

func (s *failingMeta) UseSession(
	ctx context.Context, id string, n int64, idem *database.Idempotency,
) (ledger.Session, error) {
	return answered(s, func() (ledger.Session, error) { return s.Database.UseSession(ctx, id, n, idem) })
}

func (s *failingMeta) ChargeSession(
	ctx context.Context, id string, n int64, charge string,
) (ledger.Session, error) {
	return answered(s, func() (ledger.Session, error) { return s.Database.ChargeSession(ctx, id, n, charge) })
}

func (s *failingMeta) OpenChannel(
	ctx context.Context, c ledger.Channel, idem *database.Idempotency,
) (ledger.Channel, error) {
	return answered(s, func() (ledger.Channel, error) { return s.Database.OpenChannel(ctx, c, idem) })
}

func (s *failingMeta) AddDeposit(
	ctx context.Context, id string, amount int64, idem *database.Idempotency,
) (ledger.Channel, error) {
	return answered(s, func() (ledger.Channel, error) { return s.Database.AddDeposit(ctx, id, amount, idem) })
}

func (s *failingMeta) ChannelSessions(ctx context.Context, id string, limit int) ([]ledger.Session, error) {
	if s.noSessions.Load() {
		return nil, fmt.Errorf("listing: %w", database.ErrUnavailable)
	}
	return s.Database.ChannelSessions(ctx, id, limit)
}

// around makes a service use s over its own database.
func (s *failingMeta) around(m whole.Database) whole.Database {
	s.Database = m
	return s
}

// failingBytes is a store. Its Puts fail, and its reads end after the given number of bytes.
type failingBytes struct {
	*memory.Store
	put      atomic.Pointer[error]
	response atomic.Pointer[brokenResponse]
}

// fail makes all Puts fail with this error, or with nil none.
func (s *failingBytes) fail(err error) { s.put.Store(&err) }

type brokenResponse struct {
	after int64
	err   error
}

func (s *failingBytes) Put(ctx context.Context, key bytestore.Name, src io.Reader, size int64) error {
	if err := s.put.Load(); err != nil && *err != nil {
		return *err
	}
	return s.Store.Put(ctx, key, src, size)
}

func (s *failingBytes) Open(ctx context.Context, key bytestore.Name, off, n int64) (io.ReadCloser, error) {
	r, err := s.Store.Open(ctx, key, off, n)
	broken := s.response.Load()
	if err != nil || broken == nil {
		return r, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(r, broken.after), iotest.ErrReader(broken.err)), r}, nil
}

// newFailing starts a local service over stores that can be made to fail.
func newFailing(t *testing.T) (*service, *failingMeta, *failingBytes) {
	t.Helper()
	meta, files := &failingMeta{}, &failingBytes{Store: memory.New()}
	s := start(t, setup{around: meta.around, config: func(c *Config) {
		c.Blobs = blob.New(meta, files, blob.Options{})
	}})
	return s, meta, files
}

// slowKeys is a store that answers a key's lookup after a time, and counts lookups.
type slowKeys struct {
	access.KeyStore
	takes   atomic.Int64 // a lookup's, in nanoseconds
	lookups atomic.Int64
}

func (k *slowKeys) Key(ctx context.Context, id string) (keys.Key, error) {
	k.lookups.Add(1)
	select {
	case <-time.After(time.Duration(k.takes.Load())):
	case <-ctx.Done():
		return keys.Key{}, ctx.Err()
	}
	return k.KeyStore.Key(ctx, id)
}

// of makes a service a hosted one, with these keys over its own database.
func (k *slowKeys) of(meta whole.Database) *access.Authenticator {
	k.KeyStore = meta
	return access.NewAuthenticator(k, access.AuthenticatorOptions{})
}
