package meta

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
	"sluice/test/testenv"
)

// alone returns a store on the same database in which each lookup has its own query.
func alone(s *Metastore) *Metastore { return &Metastore{db: s.db, in: s.in} }

// fillForLookups stores n blobs of account a: a third of them with a body, a third with an object,
// a third empty.
func fillForLookups(tb testing.TB, s *Metastore, n, size int) {
	tb.Helper()
	body := make([]byte, size)
	for i := range n {
		b := metastore.Blob{Account: "a", Name: fmt.Sprint(i), Content: metastore.NewContentID(time.Now()), Size: int64(size), ContentType: fmt.Sprint("type/", i%7)}
		extents := []metastore.Extent{{Size: b.Size, Body: body, Blocks: []uint32{uint32(i)}}}
		switch i % 3 {
		case 1:
			extents[0].Body, extents[0].Object, extents[0].Created = nil, fmt.Sprint("object", i), time.Now()
		case 2:
			b.Size, extents = 0, nil
		}
		testenv.Must(s.CommitBlob(tb.Context(), b, extents, nil))(tb)
	}
}

// TestLookupsTogether looks blobs up at once, among them missing, expired and damaged ones: each
// gets the same result as a lookup with its own query.
func TestLookupsTogether(t *testing.T) {
	const blobs, callers, each = 120, 48, 60
	s, conn := openPostgres(t)
	fillForLookups(t, s, blobs, 1_000)
	for _, damage := range []string{
		`UPDATE blobs SET row_sum = row_sum + 1 WHERE name_head = '17'`,
		`UPDATE extents SET row_sum = row_sum + 1 WHERE content = (SELECT content FROM blobs WHERE name_head = '18')`,
		`UPDATE blobs SET expires = 1, row_sum = NULL WHERE name_head = '19'`,
	} {
		if tag, err := conn.Exec(t.Context(), damage); err != nil || tag.RowsAffected() != 1 {
			t.Fatalf("%s: %v, %v", damage, tag, err)
		}
	}
	type result struct {
		blob    metastore.Blob
		extents []metastore.Extent
		err     string
	}
	open := func(s *Metastore, name string) result {
		b, extents, err := s.OpenBlob(t.Context(), "a", name)
		return result{b, extents, fmt.Sprint(err)}
	}
	want := map[string]result{}
	for i := range blobs + 20 {
		want[fmt.Sprint(i)] = open(alone(s), fmt.Sprint(i))
	}
	for name, err := range map[string]error{"17": database.ErrDamagedRow, "18": database.ErrDamagedRow, "19": database.ErrNotFound, "120": database.ErrNotFound} {
		_, _, got := s.OpenBlob(t.Context(), "a", name)
		testenv.Is(t, got, err, "%s", name)
	}
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				name := fmt.Sprint(rand.IntN(blobs + 20))
				if got := open(s, name); !reflect.DeepEqual(got, want[name]) {
					t.Errorf("%s: got %+v, want %+v", name, got, want[name])
				}
			}
		})
	}
	all.Wait()
}

// heldQueries runs no query, but holds those that would run.
type heldQueries struct {
	begun   chan struct{} // receives a token for each
	hold    chan struct{} // closed: they end
	count   atomic.Int64
	running atomic.Int64
	most    atomic.Int64
}

func (h *heldQueries) read(context.Context, func(tx) error) error {
	h.count.Add(1)
	n := h.running.Add(1)
	for most := h.most.Load(); n > most; most = h.most.Load() {
		h.most.CompareAndSwap(most, n)
	}
	defer h.running.Add(-1)
	h.begun <- struct{}{}
	<-h.hold
	return nil
}

// TestLookupsShareQueries: the first lookups do not wait; those that arrive while maxLookupQueries
// run share the next queries, without those that were left.
func TestLookupsShareQueries(t *testing.T) {
	h := &heldQueries{begun: make(chan struct{}, 1_000), hold: make(chan struct{})}
	l := newLookups(h.read)
	var all sync.WaitGroup
	get := func(ctx context.Context, want error) {
		all.Go(func() {
			_, _, err := l.get(ctx, "a", "n")
			testenv.Is(t, err, want, "a lookup")
		})
	}
	for range maxLookupQueries {
		get(t.Context(), nil)
		<-h.begun
	}
	leaving, leave := context.WithCancel(t.Context())
	for range maxLookups {
		get(leaving, context.Canceled)
	}
	await(t, l, maxLookups)
	leave()
	for range 2 * maxLookups {
		get(t.Context(), nil)
	}
	await(t, l, 3*maxLookups)
	_, _, err := l.get(database.WithPatience(t.Context(), time.Millisecond), "a", "n")
	testenv.Is(t, err, engine.ErrQueued, "an impatient lookup")
	close(h.hold)
	all.Wait()
	if most := h.most.Load(); most != maxLookupQueries {
		t.Errorf("%d queries ran at a time", most)
	}
	if n := h.count.Load(); n > maxLookupQueries+3 {
		t.Errorf("%d queries ran", n)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := 0; l.mu.running > 0 && n < 1_000_000; n++ { // a caller has its result before its query's goroutine ends
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
	}
	if l.mu.running != 0 || l.mu.waiting != nil {
		t.Errorf("%d queries are running, and %d lookups waiting", l.mu.running, len(l.mu.waiting))
	}
}

// TestLookupsOfRunnableCallers: callers that can run when a query is about to begin share it, even
// if fewer than maxLookupQueries run.
func TestLookupsOfRunnableCallers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const callers = 16
	fewest := int64(callers)
	for range 10 {
		h := &heldQueries{begun: make(chan struct{}, callers), hold: make(chan struct{})}
		close(h.hold)
		l := newLookups(h.read)
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				_, _, err := l.get(t.Context(), "a", "n")
				testenv.Check(t, err)
			})
		}
		all.Wait()
		fewest = min(fewest, h.count.Load())
	}
	if fewest > 2 {
		t.Errorf("%d callers that could run together had %d queries", callers, fewest)
	}
}

// await waits until n lookups wait. No more than maxLookupQueries queries may run meanwhile.
func await(t *testing.T, l *lookups, n int) {
	t.Helper()
	for waiting, running := -1, 0; waiting != n; runtime.Gosched() {
		if t.Context().Err() != nil || running > maxLookupQueries {
			t.Fatalf("%d lookups wait, and not %d; %d queries run", waiting, n, running)
		}
		l.mu.Lock()
		waiting, running = len(l.mu.waiting), l.mu.running
		l.mu.Unlock()
	}
}

// TestLookupsFailTogether: an error of a query, and a panic, reach each caller.
func TestLookupsFailTogether(t *testing.T) {
	broken := errors.New("broken")
	l := newLookups(func(context.Context, func(tx) error) error { return broken })
	_, _, err := l.get(t.Context(), "a", "n")
	testenv.Is(t, err, broken, "a lookup")
	l = newLookups(func(context.Context, func(tx) error) error { panic(broken) })
	defer func() { testenv.Equal(t, recover(), any(broken), "the panic") }()
	_, _, _ = l.get(t.Context(), "a", "n")
}

// BenchmarkLookups compares lookups that share queries with those that have one each, from 64
// callers, of 2,000 blobs; a third of them have 4 KiB inline.
func BenchmarkLookups(b *testing.B) {
	const blobs = 2_000
	s, _ := openPostgres(b)
	fillForLookups(b, s, blobs, 4<<10)
	for _, c := range []struct {
		name string
		s    *Metastore
	}{{"shared", s}, {"alone", alone(s)}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, _, err := c.s.OpenBlob(b.Context(), "a", fmt.Sprint(rand.IntN(blobs))); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
