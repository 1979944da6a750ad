package bytestore

import (
	"context"
	"io"
	"sync/atomic"
	"time"
)

// Timer is a context that adds up how long the calls of Timed stores under it take. The caller sets
// Context before the first use. Its methods may be called concurrently.
type Timer struct {
	context.Context
	spent atomic.Int64 // nanoseconds
}

type timerKey struct{}

// Value implements context.Context.
func (t *Timer) Value(name any) any {
	if name == (timerKey{}) {
		return t
	}
	return t.Context.Value(name)
}

// Spent returns how long the calls took that have ended. Concurrent calls are counted each.
func (t *Timer) Spent() time.Duration { return time.Duration(t.spent.Load()) }

// Timed returns a Store that adds the time of its calls to the Timer of their contexts, if they
// have one: of Put without reading its source, of Open without reading the object, and of Delete.
func Timed(store Store) Store { return &timed{store} }

type timed struct{ Store }

// Put implements Store.
func (s *timed) Put(ctx context.Context, name Name, src io.Reader, size int64) error {
	t, ok := ctx.Value(timerKey{}).(*Timer)
	if !ok {
		return s.Store.Put(ctx, name, src, size)
	}
	timed, began := timedReader{src: src}, time.Now()
	err := s.Store.Put(ctx, name, &timed, size)
	t.spent.Add(int64(time.Since(began) - timed.spent))
	return err
}

// timedReader measures the reads of src.
type timedReader struct {
	src   io.Reader
	spent time.Duration
}

// Read implements io.Reader.
func (r *timedReader) Read(p []byte) (int, error) {
	began := time.Now()
	n, err := r.src.Read(p)
	r.spent += time.Since(began)
	return n, err
}

// Open implements Store.
func (s *timed) Open(ctx context.Context, name Name, off, n int64) (io.ReadCloser, error) {
	began := time.Now()
	r, err := s.Store.Open(ctx, name, off, n)
	addTime(ctx, began)
	return r, err
}

// Delete implements Store.
func (s *timed) Delete(ctx context.Context, names ...Name) error {
	began := time.Now()
	err := s.Store.Delete(ctx, names...)
	addTime(ctx, began)
	return err
}

// Invalidate implements Invalidator. It does nothing if the store caches nothing.
func (s *timed) Invalidate(name Name) {
	if cache, ok := s.Store.(Invalidator); ok {
		cache.Invalidate(name)
	}
}

func addTime(ctx context.Context, began time.Time) {
	if t, ok := ctx.Value(timerKey{}).(*Timer); ok {
		t.spent.Add(int64(time.Since(began)))
	}
}
