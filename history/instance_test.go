package history_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/bytetest"
	"sluice/bytestore/memory"
	"sluice/database"
	"sluice/history"
	"sluice/ledger"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// kills are the ways in which a process dies at a step.
var kills = []fault.Kind{fault.Fail, fault.Lose}

// killedAt returns a kill at a write's step, counted from 1.
func killedAt(step int, kind fault.Kind) *fault.Point[string] {
	return &fault.Point[string]{K: int64(step - 1), Kind: kind, Kills: true, Match: func(name string) bool { return name != "open" }}
}

type killedMeta struct {
	database.Properties
	*fault.Point[string]
}

func (m killedMeta) SetProperty(ctx context.Context, name, value string) error {
	return m.Do("set", func() error { return m.Properties.SetProperty(ctx, name, value) })
}

// Invariant 11.
func TestFirstStartCutAtEachStep(t *testing.T) {
	ctx := context.Background()
	for _, kind := range kills {
		for step := 1; ; step++ {
			f := newFixture(t)
			k := killedAt(step, kind)
			_, err := history.Bind(ctx, killedMeta{f.meta, k}, bytetest.Faulty{Store: f.bytes, Point: k})
			if err == nil {
				if step < 3 {
					t.Fatalf("a first start has only %d steps", step-1)
				}
				break
			}
			if !errors.Is(err, fault.ErrFault) {
				t.Fatal(err)
			}
			t.Run(fmt.Sprintf("step %d %s", step, kind), func(t *testing.T) {
				inBytes := testenv.Must(history.ReadID(ctx, f.bytes.Open, history.InstanceObject))(t)
				// Other metadata must never adopt what this one has begun.
				other := newFixture(t)
				if _, err := history.Bind(ctx, other.meta, f.bytes); inBytes != "" && !errors.Is(err, history.ErrForeignStore) {
					t.Fatalf("another database on the bytes of a first start that was cut: %v", err)
				} else if inBytes == "" {
					f.bytes = memory.New() // in use by the other
				}
				id, err := history.Bind(ctx, f.meta, f.bytes)
				if err != nil || id == "" || inBytes != "" && id != inBytes {
					t.Fatalf("the next start: %q, %v", id, err)
				}
				if again, err := history.Bind(ctx, f.meta, f.bytes); err != nil || again != id {
					t.Fatalf("the start after that: %q, %v, want %q", again, err, id)
				}
			})
		}
	}
}

// Invariant 84.
func TestConcurrentFirstStartsAgree(t *testing.T) {
	const nodes = 8
	for range 20 {
		f := newFixture(t)
		ids := make(chan string, nodes)
		var starts sync.WaitGroup
		for range nodes {
			starts.Go(func() {
				id, err := history.Bind(context.Background(), f.meta, f.bytes)
				if err == nil { // a node that has started accepts data immediately
					_, err = f.meta.CreateSession(context.Background(), ledger.Session{ID: rand.Text(), Expires: time.Now().Add(time.Hour)}, nil)
				}
				testenv.Check(t, err)
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

// TestFirstStartsOfTwoDatabases starts several databases concurrently on the same empty bytes. One
// becomes their instance. The others are rejected, keep their own ids, and can use other bytes.
// Invariant 91.
func TestFirstStartsOfTwoDatabases(t *testing.T) {
	const databases, nodes = 3, 2
	ctx := context.Background()
	for range 5 {
		bytes := memory.New()
		var fixtures [databases]*fixture
		var ids [databases * nodes]string
		var starts sync.WaitGroup
		for d := range fixtures {
			fixtures[d] = newFixture(t)
			for n := range nodes {
				starts.Go(func() {
					id, err := history.Bind(ctx, fixtures[d].meta, bytes)
					if err != nil && !errors.Is(err, history.ErrForeignStore) {
						t.Error(err)
					}
					if err == nil {
						ids[d*nodes+n] = id
					}
				})
			}
		}
		starts.Wait()
		winners := 0
		for d, f := range fixtures {
			id, err := history.Bind(ctx, f.meta, bytes)
			if err != nil {
				id = ""
			} else {
				winners++
			}
			for n := range nodes {
				if ids[d*nodes+n] != id {
					t.Fatalf("node %d of database %d started as %q, and starts as %q, %v", n, d, ids[d*nodes+n], id, err)
				}
			}
			if err == nil {
				continue
			}
			_, err = history.Bind(ctx, f.meta, memory.New())
			testenv.Is(t, err, nil, "a database that was refused, on empty bytes")
		}
		if winners != 1 {
			t.Fatalf("%d databases have the same bytes", winners)
		}
	}
}

// TestUnfinishedCopies checks that stores with an unfinished copy are rejected with a specific
// error, whichever of its marks they hold.
// Invariant 119.
func TestUnfinishedCopies(t *testing.T) {
	ctx := context.Background()
	source := strings.Repeat("a", 32)
	mark := func(f *fixture) error { return f.bytes.Put(ctx, history.CopyObject, strings.NewReader(source), 32) }
	copied := func(f *fixture) error {
		return f.meta.SetProperty(ctx, history.InstanceProperty, history.CopyOf(source))
	}
	named := func(f *fixture) error { return f.bytes.Put(ctx, history.InstanceObject, strings.NewReader(source), 32) }
	for name, steps := range map[string][]func(*fixture) error{
		"bytes marked":         {mark},
		"metadata marked":      {copied},
		"both marked":          {mark, copied},
		"bytes published":      {mark, copied, named},
		"metadata lost":        {mark, named},
		"no mark of the bytes": {copied, named},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			for _, step := range steps {
				testenv.OK(t, step(f))
			}
			before := f.objects(t)
			_, err := history.Bind(ctx, f.meta, f.bytes)
			if !errors.Is(err, history.ErrUnfinishedCopy) || !strings.Contains(err.Error(), source) || !strings.Contains(err.Error(), "sluice restore") {
				t.Errorf("error %v, want %v with the instance and the command", err, history.ErrUnfinishedCopy)
			}
			testenv.Equal(t, f.objects(t), before, "objects after the refusal")
		})
	}
}

// Invariant 91.
func TestStoresThatDoNotBelongTogetherAreRefused(t *testing.T) {
	ctx := context.Background()
	bound := func(t *testing.T) *fixture {
		f := newFixture(t)
		testenv.Must(history.Bind(ctx, f.meta, f.bytes))(t)
		return f
	}
	cases := map[string]struct {
		stores func(t *testing.T) (database.Properties, bytestore.Store)
		reason string
	}{
		"two instances": {func(t *testing.T) (database.Properties, bytestore.Store) {
			return bound(t).meta, bound(t).bytes
		}, "the bytes belong to instance"},
		"metadata in use, bytes lost": {func(t *testing.T) (database.Properties, bytestore.Store) {
			f := bound(t)
			f.put(t)
			return f.meta, memory.New()
		}, "there is metadata, but the bytes have no instance id"},
		"bytes in use, metadata lost": {func(t *testing.T) (database.Properties, bytestore.Store) {
			f := bound(t)
			f.put(t)
			return newFixture(t).meta, f.bytes
		}, "there are bytes, but the metadata has no instance id"},
		"bytes of another first start": {func(t *testing.T) (database.Properties, bytestore.Store) {
			return newFixture(t).meta, bound(t).bytes
		}, "there are bytes, but the metadata has no instance id"},
		"bytes without an id": {func(t *testing.T) (database.Properties, bytestore.Store) {
			f := newFixture(t)
			f.orphan(t)
			return f.meta, f.bytes
		}, "there are bytes, but neither the metadata nor the bytes have an instance id"},
		"metadata with an id, bytes without": {func(t *testing.T) (database.Properties, bytestore.Store) {
			f := newFixture(t)
			f.orphan(t)
			return bound(t).meta, f.bytes
		}, "there are bytes, but the bytes have no instance id"},
		"metadata without an id": {func(t *testing.T) (database.Properties, bytestore.Store) {
			f := newFixture(t)
			f.put(t)
			return f.meta, memory.New()
		}, "there is metadata, but neither the metadata nor the bytes have an instance id"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			meta, bytes := tc.stores(t)
			_, err := history.Bind(ctx, meta, bytes)
			if !errors.Is(err, history.ErrForeignStore) || !strings.Contains(err.Error(), "belong together") || !strings.Contains(err.Error(), tc.reason) {
				t.Errorf("error %v, want %v and %q", err, history.ErrForeignStore, tc.reason)
			}
		})
	}
}
