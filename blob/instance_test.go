package blob_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/metastore"
)

var errKilled = errors.New("killed here")

// killer lets the steps of a first start happen until one at which the process
// dies: before it takes effect, or after.
type killer struct {
	step  int
	after bool
	seen  int
}

func (k *killer) do(step func() error) error {
	k.seen++
	if k.seen < k.step || k.step == 0 {
		return step()
	}
	if k.seen == k.step && k.after {
		return errors.Join(step(), errKilled)
	}
	return errKilled
}

type killedBytes struct {
	bytestore.Store
	*killer
}

func (b killedBytes) Put(ctx context.Context, key bytestore.Key, src io.Reader, size int64) error {
	return b.do(func() error { return b.Store.Put(ctx, key, src, size) })
}

type killedMeta struct {
	metastore.Store
	*killer
}

func (m killedMeta) SetFact(ctx context.Context, name, value string) error {
	return m.do(func() error { return m.Store.SetFact(ctx, name, value) })
}

func TestFirstStartCutAtEachStep(t *testing.T) {
	ctx := context.Background()
	for _, after := range []bool{false, true} {
		for step := 1; ; step++ {
			f := newFixture(t, blob.Options{})
			k := &killer{step: step, after: after}
			_, err := blob.Bind(ctx, killedMeta{f.meta, k}, killedBytes{f.bytes, k})
			if err == nil {
				if step < 3 {
					t.Fatalf("a first start has only %d steps", step-1)
				}
				break
			}
			if !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			t.Run(fmt.Sprintf("step %d, after %t", step, after), func(t *testing.T) {
				id, err := blob.Bind(ctx, f.meta, f.bytes)
				if err != nil || id == "" {
					t.Fatalf("the next start: %q, %v", id, err)
				}
				if again, err := blob.Bind(ctx, f.meta, f.bytes); err != nil || again != id {
					t.Fatalf("the one after: %q, %v, want %q", again, err, id)
				}
			})
		}
	}
}

func TestFirstStartsAtOnceAgree(t *testing.T) {
	const nodes = 8
	for range 20 {
		f := newFixture(t, blob.Options{})
		ids := make(chan string, nodes)
		var starts sync.WaitGroup
		for range nodes {
			starts.Go(func() {
				id, err := blob.Bind(context.Background(), f.meta, f.bytes)
				if err == nil { // a node that has started takes data in at once
					_, err = f.meta.CreateSession(context.Background(), metastore.Session{ID: rand.Text(), Expires: time.Now().Add(time.Hour)}, nil)
				}
				if err != nil {
					t.Error(err)
				}
				ids <- id
			})
		}
		starts.Wait()
		first := <-ids
		for range nodes - 1 {
			if id := <-ids; id != first {
				t.Fatalf("nodes have the ids %s and %s", first, id)
			}
		}
	}
}

func TestStoresThatDoNotBelongTogetherAreRefused(t *testing.T) {
	ctx := context.Background()
	bound := func(t *testing.T) *fixture {
		f := newFixture(t, blob.Options{InlineSize: -1})
		if _, err := blob.Bind(ctx, f.meta, f.bytes); err != nil {
			t.Fatal(err)
		}
		return f
	}
	cases := map[string]func(t *testing.T) (metastore.Store, bytestore.Store){
		"two instances": func(t *testing.T) (metastore.Store, bytestore.Store) {
			return bound(t).meta, bound(t).bytes
		},
		"metadata in use, bytes lost": func(t *testing.T) (metastore.Store, bytestore.Store) {
			f := bound(t)
			f.put(t, "n", []byte("x"))
			return f.meta, memory.New()
		},
		"bytes in use, metadata lost": func(t *testing.T) (metastore.Store, bytestore.Store) {
			f := bound(t)
			f.put(t, "n", []byte("x"))
			return newFixture(t, blob.Options{}).meta, f.bytes
		},
		"bytes without an id": func(t *testing.T) (metastore.Store, bytestore.Store) {
			f := newFixture(t, blob.Options{})
			f.orphan(t)
			return f.meta, f.bytes
		},
		"metadata without an id": func(t *testing.T) (metastore.Store, bytestore.Store) {
			f := newFixture(t, blob.Options{})
			f.put(t, "n", []byte("x"))
			return f.meta, memory.New()
		},
	}
	for name, stores := range cases {
		t.Run(name, func(t *testing.T) {
			meta, bytes := stores(t)
			if _, err := blob.Bind(ctx, meta, bytes); !errors.Is(err, blob.ErrForeignStore) || !strings.Contains(err.Error(), "belong together") {
				t.Errorf("error %v, want %v", err, blob.ErrForeignStore)
			}
		})
	}
}
