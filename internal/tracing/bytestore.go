package tracing

import (
	"context"
	"io"

	"sluice/bytestore"
)

// Bytes returns a store that starts a span for each call that a traced request makes. Put's span
// includes the time in which the body arrives. Open's span ends before the bytes are read.
func (t *Tracer) Bytes(store bytestore.Store) bytestore.Store { return byteStore{store, t} }

// byteStore adds spans to a store's methods.
type byteStore struct {
	store bytestore.Store
	*Tracer
}

// Put implements bytestore.Store.
func (b byteStore) Put(ctx context.Context, key bytestore.Name, src io.Reader, size int64) (err error) {
	ctx, span := b.begin(ctx, "bytestore.Put")
	defer span.end(&err)
	return b.store.Put(ctx, key, src, size)
}

// Open implements bytestore.Store.
func (b byteStore) Open(ctx context.Context, key bytestore.Name, off, n int64) (_ io.ReadCloser, err error) {
	// A reader may read under Open's context, so it must not get the span's.
	_, span := b.begin(ctx, "bytestore.Open")
	defer span.end(&err)
	return b.store.Open(ctx, key, off, n)
}

// Delete implements bytestore.Store.
func (b byteStore) Delete(ctx context.Context, keys ...bytestore.Name) (err error) {
	ctx, span := b.begin(ctx, "bytestore.Delete")
	defer span.end(&err)
	return b.store.Delete(ctx, keys...)
}

// List implements bytestore.Store.
func (b byteStore) List(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) (err error) {
	ctx, span := b.begin(ctx, "bytestore.List")
	defer span.end(&err)
	return b.store.List(ctx, after, fn)
}

// Invalidate implements bytestore.Invalidator. It does nothing if the store caches nothing.
func (b byteStore) Invalidate(key bytestore.Name) {
	if cache, ok := b.store.(bytestore.Invalidator); ok {
		cache.Invalidate(key)
	}
}
