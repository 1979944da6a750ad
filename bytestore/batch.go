package bytestore

import (
	"context"
	"errors"
	"io"
)

// Batch stores many objects, and makes them durable together. Its objects may become visible at any
// time, but are durable only when Commit has returned nil.
type Batch interface {
	// Put stores an object like Store.Put, or nothing if there is one with this name. It may be
	// called concurrently, but not with Commit.
	Put(ctx context.Context, name Name, src io.Reader, size int64) error
	// Commit returns nil once all objects are visible that were Put, and everything that is visible
	// in the store survives a power failure, even objects that the batch did not Put. After an
	// error, which may be another Put's, the batch stores nothing more; each of its objects is then
	// either complete or not visible. It can be called many times.
	Commit(ctx context.Context) error
	// Close ends the batch. Objects that were Put and not committed stay, if that is possible: a
	// caller that ended early, for example for lack of space, goes on from there.
	Close() error
}

// Batcher is implemented by a Store for which a Batch is less work than as many Puts.
type Batcher interface{ Batch() Batch }

// NewBatch returns a batch of a store's, or one that Puts each object if the store has none.
func NewBatch(s Store) Batch {
	if b, ok := s.(Batcher); ok {
		return b.Batch()
	}
	return single{s}
}

// single stores each object by itself.
type single struct{ store Store }

func (b single) Put(ctx context.Context, name Name, src io.Reader, size int64) error {
	err := b.store.Put(ctx, name, src, size)
	if errors.Is(err, ErrExists) {
		return nil
	}
	return err
}

func (single) Commit(ctx context.Context) error { return ctx.Err() }
func (single) Close() error                     { return nil }
