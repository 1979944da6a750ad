package feed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/metastore"
	"sluice/test/testenv"
)

// record is a record of changes in memory.
type record struct {
	metastore.Changes

	mu         sync.Mutex
	generation int64
	changes    []metastore.Change
	floor      int64 // changes up to it are gone
	queries    int
	err        error
}

func (r *record) position(n int64) metastore.FeedPosition {
	return metastore.FeedPosition{Generation: r.generation, Number: n}
}

// add commits n changes, of an account each in turn.
func (r *record) add(n int, account string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range n {
		number := int64(len(r.changes) + 1)
		r.changes = append(r.changes, metastore.Change{
			Position: r.position(number), Kind: metastore.ChangeStored, Account: account, Name: fmt.Sprintf("n/%d", number),
		})
	}
}

func (r *record) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queries
}

func (r *record) FeedEnd(context.Context) (metastore.FeedPosition, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queries++
	return r.position(int64(len(r.changes))), r.err
}

func (r *record) ListChanges(_ context.Context, q metastore.ChangeQuery) (metastore.ChangePage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queries++
	if r.err != nil {
		return metastore.ChangePage{}, r.err
	}
	end := r.position(int64(len(r.changes)))
	if q.After.Generation != r.generation || q.After.Number > end.Number || q.After.Number < r.floor {
		return metastore.ChangePage{}, &metastore.ChangesGoneError{Restart: end}
	}
	all := ring{from: r.position(0), end: end, changes: r.changes}
	return all.page(&q), nil
}

// query selects an account's changes; "": all.
func query(account string, after metastore.FeedPosition) metastore.ChangeQuery {
	return metastore.ChangeQuery{After: after, Account: account, All: account == "", Limit: 100, Bytes: 1 << 20}
}

// newHub returns a hub, which is closed at the test's end.
func newHub(t testing.TB, r *record, opt Options) *Hub {
	h := New(r, opt)
	t.Cleanup(h.Close)
	return h
}

// TestThousandReadersCostOnePoll: 1,000 readers wait for 10 seconds, and cost the database 20 reads
// a second together. Then one change wakes its account's readers, within one interval. Without
// readers nothing is read.
// Invariant 226.
func TestThousandReadersCostOnePoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers = 1000
		r := &record{generation: 1}
		h := newHub(t, r, Options{})
		time.Sleep(time.Minute)
		testenv.Equal(t, r.count(), 0, "reads without readers")
		warm := testenv.Must(h.Enter("warm", query("", r.position(0))))(t)
		time.Sleep(time.Second)

		began := r.count()
		var woken, quiet sync.WaitGroup
		for i := range readers {
			of, account := &woken, "a"
			if i%2 == 1 {
				of, account = &quiet, "b"
			}
			reader := testenv.Must(h.Enter(fmt.Sprint("owner ", i%10), query(account, r.position(0))))(t)
			of.Go(func() {
				defer reader.Leave()
				page, err := reader.Next(t.Context(), 20*time.Second)
				testenv.Check(t, err)
				testenv.Equal(t, len(page.Changes), 1-i%2, "changes for a reader")
				testenv.Equal(t, page.Next, r.position(1), "the position behind them")
			})
		}
		time.Sleep(10 * time.Second)
		if n := r.count() - began; n > 201 {
			t.Errorf("%d reads in 10 seconds, want one each 50 ms", n)
		}
		at := time.Now()
		r.add(1, "a")
		woken.Wait()
		if took := time.Since(at); took > 50*time.Millisecond {
			t.Errorf("the change was seen after %v", took)
		}
		quiet.Wait()
		testenv.Equal(t, h.Stats().Database, 0, "pages that readers read from the database")
		warm.Leave()
		time.Sleep(time.Second)
		began = r.count()
		time.Sleep(time.Minute)
		testenv.Equal(t, r.count(), began, "reads after the last reader has left")
		testenv.Equal(t, h.Stats().Readers, 0, "readers")
	})
}

// TestReadersMissNothing: readers at random paces, each with a position of its own, over a ring
// that is far too small, read all changes in order, and each once.
// Invariant 227.
func TestReadersMissNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const total = 3000
		r := &record{generation: 7}
		h := newHub(t, r, Options{Bytes: 20 << 8})
		var all sync.WaitGroup
		for i := range 20 {
			account := []string{"", "a", "b"}[i%3]
			reader := testenv.Must(h.Enter("x", query(account, r.position(0))))(t)
			all.Go(func() {
				defer reader.Leave()
				random := rand.New(rand.NewPCG(1, uint64(i)))
				last, seen := int64(0), 0
				for reader.At().Number < total {
					page, err := reader.Next(t.Context(), time.Duration(random.IntN(2))*time.Second)
					testenv.Check(t, err)
					for _, c := range page.Changes {
						if c.Position.Number <= last || account != "" && c.Account != account {
							t.Errorf("a reader of %q got %+v after %d", account, c, last)
						}
						last = c.Position.Number
						seen++
					}
					time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond * time.Duration(i/10))
				}
				want := total
				if account != "" {
					want = total / 2
				}
				testenv.Equal(t, seen, want, "changes")
			})
		}
		for n := range total / 10 {
			r.add(10, []string{"a", "b"}[n%2])
			time.Sleep(time.Duration(n%7) * 10 * time.Millisecond)
		}
		all.Wait()
		if s := h.Stats(); s.Memory == 0 || s.Database == 0 {
			t.Errorf("pages from memory and from the database: %+v", s)
		}
	})
}

// TestRingIsBounded: the ring keeps as many changes as its bytes permit, the latest, and pages
// from it have the query's limits.
func TestRingIsBounded(t *testing.T) {
	g := ring{from: metastore.FeedPosition{Generation: 1}, end: metastore.FeedPosition{Generation: 1}}
	const most = 10 << 10
	for n := int64(1); n <= 100; n++ {
		at := metastore.FeedPosition{Generation: 1, Number: 2 * n}
		g.add(metastore.ChangePage{Next: at, Changes: []metastore.Change{{Position: at, Account: "a", Name: strings.Repeat("x", 100)}}}, most)
		if g.bytes > most || !g.has(at) || g.has(g.position(g.from.Number-1)) {
			t.Fatalf("%d bytes from %v to %v", g.bytes, g.from, g.end)
		}
	}
	testenv.Equal(t, len(g.changes), most/(256+101), "changes")
	q := metastore.ChangeQuery{After: g.from, All: true, Limit: 3}
	page := g.page(&q)
	testenv.Equal(t, len(page.Changes), 3, "changes in a page")
	testenv.Equal(t, page.Next, g.changes[2].Position, "the position behind it")
	testenv.Equal(t, page.More, true, "more")
	q.Limit, q.Bytes = 100, 2*(256+101)
	testenv.Equal(t, len(g.page(&q).Changes), 2, "changes in so many bytes")
	q.Bytes = 1
	testenv.Equal(t, len(g.page(&q).Changes), 1, "changes at least")
	q.Prefix = "y"
	testenv.Equal(t, g.page(&q).Next, g.end, "the position behind changes that are not selected")
}

func (g *ring) position(n int64) metastore.FeedPosition {
	return metastore.FeedPosition{Generation: g.end.Generation, Number: n}
}

// TestReadersAreBounded: an owner has at most so many readers, and all together have.
// Invariant 229.
func TestReadersAreBounded(t *testing.T) {
	h := newHub(t, &record{generation: 1}, Options{Readers: 3, OwnerReaders: 2})
	enter := func(owner string) (*Reader, error) { return h.Enter(owner, query("", metastore.FeedPosition{})) }
	first := testenv.Must(enter("a"))(t)
	second := testenv.Must(enter("a"))(t)
	_, err := enter("a")
	testenv.Is(t, err, ErrOwner, "an owner's third reader")
	third := testenv.Must(enter("b"))(t)
	_, err = enter("c")
	testenv.Is(t, err, ErrFull, "the fourth reader")
	testenv.Equal(t, h.Stats().Refused, 2, "refused readers")
	first.Leave()
	fourth := testenv.Must(enter("a"))(t)
	for _, one := range []*Reader{second, third, fourth} {
		one.Leave()
	}
	testenv.Equal(t, len(h.owners), 0, "owners that are remembered")
	h.Close()
	_, err = enter("a")
	testenv.Is(t, err, ErrClosed, "a reader of a closed hub")
}

// TestEndsOfWaits: a wait ends with its time, its context and the hub.
func TestEndsOfWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &record{generation: 1}
		h := newHub(t, r, Options{})
		reader := testenv.Must(h.Enter("a", query("", r.position(0))))(t)
		defer reader.Leave()
		began := time.Now()
		page := testenv.Must(reader.Next(t.Context(), 3*time.Second))(t)
		testenv.Equal(t, time.Since(began), 3*time.Second, "the wait")
		testenv.Equal(t, page.Next, r.position(0), "the position")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := reader.Next(ctx, time.Minute)
		testenv.Is(t, err, context.DeadlineExceeded, "a context that ends")
		time.AfterFunc(time.Second, h.Close)
		page, err = reader.Next(t.Context(), time.Minute)
		testenv.Is(t, err, ErrClosed, "a hub that is closed")
		testenv.Equal(t, page.Next, r.position(0), "the position where it was closed")

		h = newHub(t, r, Options{})
		behind := testenv.Must(h.Enter("a", query("", r.position(0))))(t)
		defer behind.Leave()
		r.add(1, "a")
		time.Sleep(time.Second) // the hub knows the change
		h.Close()
		testenv.Is(t, testenv.Error(behind.Next(t.Context(), time.Minute)), ErrClosed, "a reader that is behind")
		testenv.Equal(t, behind.At(), r.position(0), "the position that it keeps")
	})
}

// TestSetBackRecord: a record that is set back, in the same generation or another, ends with
// ChangesGoneError for readers at a position that it no longer knows, even if it then has as many
// changes again, and other readers continue.
// Invariant 227.
func TestSetBackRecord(t *testing.T) {
	for _, generation := range []int64{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			r := &record{generation: 1}
			r.add(10, "a")
			h := newHub(t, r, Options{})
			ahead := testenv.Must(h.Enter("a", query("", r.position(10))))(t)
			defer ahead.Leave()
			_ = testenv.Must(ahead.Next(t.Context(), time.Second))(t)
			r.mu.Lock()
			r.changes, r.generation = r.changes[:5], generation
			r.mu.Unlock()
			result := make(chan error)
			go func() { result <- testenv.Error(ahead.Next(t.Context(), time.Minute)) }()
			var gone *metastore.ChangesGoneError
			if err := <-result; !errors.As(err, &gone) {
				t.Fatalf("the reader got %v", err)
			}
			testenv.Equal(t, gone.Restart, r.position(5), "where to continue")
			next := testenv.Must(h.Enter("a", query("", gone.Restart)))(t)
			defer next.Leave()
			r.add(3, "a")
			testenv.Equal(t, len(testenv.Must(next.Next(t.Context(), time.Second))(t).Changes), 3, "changes from there")
			testenv.Equal(t, h.Stats().Gone, 1, "reads that were gone")
		})
	}
}

// TestFailuresOfTheRecord: while the record cannot be read, readers wait, one failure is reported,
// and afterwards they continue.
func TestFailuresOfTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, failed := &record{generation: 1}, 0
		h := newHub(t, r, Options{Failed: func(error) { failed++ }})
		reader := testenv.Must(h.Enter("a", query("", r.position(0))))(t)
		defer reader.Leave()
		_ = testenv.Must(reader.Next(t.Context(), time.Second))(t)
		set := func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.err = err
		}
		set(errors.New("away"))
		r.add(1, "a")
		page := testenv.Must(reader.Next(t.Context(), 10*time.Second))(t)
		testenv.Equal(t, len(page.Changes), 0, "changes during the failure")
		set(nil)
		page = testenv.Must(reader.Next(t.Context(), 10*time.Second))(t)
		testenv.Equal(t, len(page.Changes), 1, "changes afterwards")
		testenv.Equal(t, failed, 1, "reports")
		if s := h.Stats(); s.FailedPolls < 5 || s.FailedPolls > 12 {
			t.Errorf("%d polls failed in 10 seconds", s.FailedPolls)
		}
	})
}
