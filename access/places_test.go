package access_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/actions"
	"sluice/access/places"
	"sluice/access/places/placestest"
	"sluice/test/testenv"
)

// setPlace changes a place.
func setPlace(t testing.TB, store places.Store, account, name string, exact bool, s places.Settings) {
	t.Helper()
	testenv.OK(t, testenv.Error(placestest.Change(context.Background(), store, places.Place{Account: account, Name: name, Exact: exact}, func(now *places.Settings, _ places.Settings) (*actions.Act, error) {
		*now = s
		return nil, nil
	})))
}

// naive returns a blob's rule and who may list below its name by reading all rows, one by one.
func naive(rows []places.Row, instance access.Reads, account, name string) (rule access.Rule, below access.Reads) {
	mayOpen := false
	for _, row := range rows {
		mayOpen = mayOpen || row.Account == account && row.Name == "" && !row.Exact && row.MayOpen
	}
	of := func(name string, exact bool) access.Rule {
		rule := access.Rule{Reads: instance, Lists: instance.Lists()}
		set := func(now *access.Reads, setting string, own access.Reads) {
			wanted := access.Reads(setting)
			if wanted == access.ReadsInstance {
				wanted = own
			}
			if wanted != "" && (mayOpen || !wanted.Opener(own)) {
				*now = wanted
			}
		}
		for length := range len(name) + 2 { // the last one is the name itself
			for _, row := range rows {
				last := length == len(name)+1
				if row.Account != account || row.Exact != last || row.Exact && (!exact || row.Name != name) || !row.Exact && (len(row.Name) != length || !strings.HasPrefix(name, row.Name)) {
					continue
				}
				set(&rule.Reads, row.Reads, instance)
				set(&rule.Lists, row.Lists, instance.Lists())
				if row.Blocked != nil {
					rule.Blocked = row.Blocked
				}
			}
		}
		return rule
	}
	below = of(name, false).Lists
	for _, row := range rows {
		if row.Account == account && !row.Exact && strings.HasPrefix(row.Name, name) && of(row.Name, false).Lists == access.ReadsKey {
			below = access.ReadsKey
		}
	}
	return of(name, true), below
}

func textOf(r access.Rule) string { return fmt.Sprint(r.Reads, " ", r.Lists, " ", r.Unblocked()) }

// TestPlacesAsNaively compares the view, which follows random changes, with a search of all rows.
// Its names have a small alphabet, so that prefixes are nested, adjacent, and longer than names.
// Invariant 195.
func TestPlacesAsNaively(t *testing.T) {
	name := func() string {
		var b strings.Builder
		for range rand.IntN(5) {
			b.WriteString([]string{"a", "b", "/", "\x00", "\xff", "é"}[rand.IntN(6)])
		}
		return b.String()
	}
	pick := func(list ...string) string { return list[rand.IntN(len(list))] }
	ctx := t.Context()
	for _, instance := range []access.Reads{access.ReadsPublic, access.ReadsKey, access.ReadsPaid} {
		store := openStores(t, 1)[0]
		p := access.NewPlaces(store, instance, 0)
		for step := range 400 {
			s := places.Settings{Reads: pick("", "", "instance", "public", "key", "free"), Lists: pick("", "", "instance", "public", "key"), MayOpen: rand.IntN(2) == 0}
			if rand.IntN(6) == 0 {
				s.Blocked = &places.Block{Reason: fmt.Sprint(step)}
			}
			if rand.IntN(3) == 0 {
				s = places.Settings{}
			}
			setPlace(t, store, pick("x", "y"), pick("", name()), rand.IntN(4) == 0, s)
			if step%8 != 0 {
				continue
			}
			rows := testenv.Must(store.ListPlaces(ctx, "", places.Place{}, 1000))(t)
			for range 40 {
				account, name := pick("x", "y", "z"), name()
				rules := testenv.Must(p.Account(ctx, account))(t)
				want, below := naive(rows, instance, account, name)
				if got := rules.At(name); textOf(got) != textOf(want) || rules.Lists(name) != below {
					t.Fatalf("%s %q on %s has %s and lists %s; want %s and %s; of %+v", account, name, instance, textOf(got), rules.Lists(name), textOf(want), below, rows)
				}
			}
		}
	}
}

// versioned is a store that counts the queries for places, and can fail or be set back.
type versioned struct {
	places.Store
	queries atomic.Int64
	cut     atomic.Pointer[error]
	waits   chan struct{} // a query waits for it; nil: it does not
}

func (v *versioned) PlaceChanges(ctx context.Context, since places.Version) (places.Changes, error) {
	v.queries.Add(1)
	if v.waits != nil {
		<-v.waits
	}
	if err := v.cut.Load(); err != nil {
		return places.Changes{}, *err
	}
	return v.Store.PlaceChanges(ctx, since)
}

// readsOf returns who may read a blob.
func readsOf(t testing.TB, p *access.Places, account, name string) access.Reads {
	t.Helper()
	return testenv.Must(p.Account(t.Context(), account))(t).At(name).Reads
}

// TestPlacesAreTrustedForTenSeconds: while Run runs, lookups make no query, and a change takes
// effect with the next poll. If the store fails, the last settings hold for 10 s, and then its
// error.
// Invariant 196.
func TestPlacesAreTrustedForTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &versioned{Store: openStores(t, 1)[0]}
		p := access.NewPlaces(store, access.ReadsPublic, 0)
		ctx, cancel := context.WithCancel(t.Context())
		reported := 0
		go p.Run(ctx, func(error) { reported++ })
		synctest.Wait()
		setPlace(t, store, "a", "", false, places.Settings{Reads: "key"})
		testenv.Equal(t, readsOf(t, p, "a", "n"), access.ReadsPublic, "reads before the poll")
		poll()
		testenv.Equal(t, readsOf(t, p, "a", "n"), access.ReadsKey, "reads after the poll")
		testenv.Equal(t, store.queries.Load(), 2, "queries")
		down := errors.New("down")
		store.cut.Store(&down)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		testenv.Equal(t, readsOf(t, p, "a", "n"), access.ReadsKey, "reads after 10 s")
		poll()
		_, err := p.Account(t.Context(), "a")
		testenv.Is(t, err, down, "a lookup after 11 s")
		_, err = p.Account(t.Context(), "another")
		testenv.Is(t, err, down, "a lookup in an account without places")
		store.cut.Store(nil)
		testenv.Equal(t, readsOf(t, p, "a", "n"), access.ReadsKey, "reads when the store is back")
		cancel()
		synctest.Wait()
		testenv.Equal(t, reported, 11, "reported failures")
	})
}

// TestPlacesWithoutRun: every lookup sees every change, and concurrent lookups share a query.
// Invariant 196.
func TestPlacesWithoutRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &versioned{Store: openStores(t, 1)[0]}
		p := access.NewPlaces(store, access.ReadsPublic, 0)
		for i := range 5 {
			want := []access.Reads{access.ReadsPublic, access.ReadsKey}[i%2]
			setPlace(t, store, "a", "", false, places.Settings{Reads: string(want)})
			testenv.Equal(t, readsOf(t, p, "a", "n"), want, "reads")
		}
		store.queries.Store(0)
		store.waits = make(chan struct{})
		var lookups sync.WaitGroup
		for range 100 {
			lookups.Go(func() { testenv.Check(t, testenv.Error(p.Account(t.Context(), "a"))) })
		}
		synctest.Wait()
		ended, end := context.WithCancel(t.Context())
		end()
		testenv.Is(t, testenv.Error(p.Account(ended, "a")), context.Canceled, "a lookup that does not wait")
		close(store.waits)
		lookups.Wait()
		testenv.Equal(t, store.queries.Load(), 2, "queries of 100 concurrent lookups")
	})
}

// TestPlacesOfAnotherHistory sets the store back, and changes it in another way: to the same
// number of changes, to fewer, and to more. Each time the view forgets the old history.
// Invariant 195.
func TestPlacesOfAnotherHistory(t *testing.T) {
	for changes := 1; changes <= 5; changes++ {
		stores := []places.Store{openStores(t, 1)[0], openStores(t, 1)[0]}
		for _, store := range stores {
			setPlace(t, store, "a", "same", false, places.Settings{Reads: "key"})
		}
		for i := range 2 {
			setPlace(t, stores[0], "a", fmt.Sprint("old", i), false, places.Settings{Reads: "key"})
		}
		v := &versioned{Store: stores[0]}
		p := access.NewPlaces(v, access.ReadsPublic, 0)
		testenv.Equal(t, readsOf(t, p, "a", "old1"), access.ReadsKey, "reads before the setback")
		for i := 1; i < changes; i++ {
			setPlace(t, stores[1], "a", fmt.Sprint("new", i), false, places.Settings{Reads: "key"})
		}
		v.Store = stores[1]
		for name, want := range map[string]access.Reads{"same": "key", "old0": "public", "old1": "public", fmt.Sprint("new", changes-1): "key"} {
			if name != "new0" {
				testenv.Equal(t, readsOf(t, p, "a", name), want, "reads of %s after %d changes", name, changes)
			}
		}
	}
}

// TestPlacesOnTwoNodes changes a place through one node while the other reads: it sees the values
// in their order, and the last one in the end.
// Invariant 196.
func TestPlacesOnTwoNodes(t *testing.T) {
	stores := openStores(t, 2)
	p := access.NewPlaces(stores[1], access.ReadsPublic, time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	var background sync.WaitGroup
	background.Go(func() { p.Run(ctx, func(err error) { t.Error(err) }) })
	const changes = 50
	background.Go(func() {
		for i := range changes {
			setPlace(t, stores[0], "a", "", false, places.Settings{Blocked: &places.Block{Reason: fmt.Sprintf("%04d", i)}})
		}
	})
	for last := ""; last != fmt.Sprintf("%04d", changes-1); {
		block := testenv.Must(p.Account(ctx, "a"))(t).At("n").Blocked
		if block == nil {
			if last != "" {
				t.Fatalf("unblocked after %s", last)
			}
			continue
		}
		if block.Reason < last {
			t.Fatalf("%s after %s", block.Reason, last)
		}
		last = block.Reason
	}
	cancel()
	background.Wait()
}

// TestPlacesAllocateNothing: neither with nor without places in the account.
// Invariant 70.
func TestPlacesAllocateNothing(t *testing.T) {
	store := openStores(t, 1)[0]
	for i := range 100 {
		setPlace(t, store, "many", fmt.Sprint(i), i%2 == 0, places.Settings{Reads: "key"})
	}
	p, ctx := polled(t, store)
	for _, account := range []string{"none", "many"} {
		if n := testing.AllocsPerRun(100, func() {
			rules, err := p.Account(ctx, account)
			if err != nil || rules.At("77/photo.jpg").Reads == "" || rules.Lists("7") == "" {
				t.Error("there is no rule", err)
			}
		}); n != 0 {
			t.Errorf("%v allocations in the account %s", n, account)
		}
	}
}

// polled returns places that need no query for 10 s.
func polled(t testing.TB, of places.Store) (*access.Places, context.Context) {
	store := &versioned{Store: of}
	p := access.NewPlaces(store, access.ReadsPublic, time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { p.Run(ctx, func(err error) { t.Error(err) }) })
	t.Cleanup(func() {
		cancel()
		run.Wait()
	})
	for before := int64(-1); before != store.queries.Load(); { // until a lookup makes no query
		before = store.queries.Load()
		testenv.OK(t, testenv.Error(p.Account(ctx, "none")))
	}
	return p, ctx
}

func BenchmarkPlaces(b *testing.B) {
	store := openStores(b, 1)[0]
	for i := range 10_000 {
		setPlace(b, store, "many", fmt.Sprint(i), false, places.Settings{Reads: "key"})
	}
	for _, account := range []string{"none", "many"} {
		p, ctx := polled(b, store)
		b.Run(account, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rules, err := p.Account(ctx, account)
				if err != nil || rules.At("7777/photo.jpg").Reads == "" {
					b.Fatal("there is no rule", err)
				}
			}
		})
	}
}
