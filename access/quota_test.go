package access_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/blob"
	"sluice/bytestore/memory"
	"sluice/metastore"
	"sluice/test/testenv"
)

// shelf is a real service in which a group stores blobs, with the group's Allowance on one node.
type shelf struct {
	*access.Allowance
	blobs *blob.Service
	line  *line
	owner string
}

func newShelf(t *testing.T, limits keys.Limits) *shelf {
	t.Helper()
	store := openStores(t, 1)[0]
	l := &line{Database: store}
	caller := callerOf(t, store, access.NewKey{Group: "g", Limits: limits})
	return &shelf{
		Allowance: access.NewLimiter(access.LimiterOptions{Usage: l}).OfKey(caller),
		blobs:     blob.New(store, memory.New(), blob.Options{InlineSize: 1 << 20}),
		line:      l, owner: caller.Group(),
	}
}

// put stores a blob with the given size if the quota allows it.
func (s *shelf) put(t *testing.T, name string, size int64) error {
	t.Helper()
	r, err := s.Reserve(context.Background(), name, "", size)
	if err != nil {
		return err
	}
	_, err = s.blobs.Put(context.Background(), blob.PutOptions{Account: "a", Name: name, Owner: s.owner}, bytes.NewReader(make([]byte, size)), size)
	if err != nil {
		r.Release()
		t.Error(err)
		return err
	}
	r.Keep()
	return nil
}

func (s *shelf) remove(t *testing.T, name string) {
	t.Helper()
	testenv.Check(t, s.blobs.Delete(context.Background(), "a", name, nil))
}

// used returns the store's count.
func (s *shelf) used(t *testing.T) metastore.Used {
	t.Helper()
	used, err := s.line.Database.Usage(context.Background(), s.owner)
	testenv.Check(t, err)
	return used
}

// refused fails the test unless err is a refusal with these amounts.
func refused(t *testing.T, err error, want access.QuotaError) {
	t.Helper()
	var got *access.QuotaError
	if !errors.Is(err, access.ErrQuota) || !errors.As(err, &got) || *got != want {
		t.Errorf("%v, want %v", err, &want)
	}
}

func TestReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		const limit = 100 + metastore.RowCharge
		s := newShelf(t, keys.Limits{StoredBytes: limit, OpenUploads: 2})
		grown := testenv.Must(s.Reserve(ctx, "", "", 0))(t)
		testenv.Check(t, errors.Join(grown.Grow(50), grown.Grow(50)))
		refused(t, grown.Grow(1), access.QuotaError{Of: "stored bytes", Limit: limit, Used: limit, Wanted: 1})
		full := access.QuotaError{Of: "stored bytes", Limit: limit, Used: limit, Wanted: 1 + metastore.RowCharge}
		refused(t, testenv.Error(s.Reserve(ctx, "", "", 1)), full)
		time.Sleep(time.Minute) // however long the body takes
		refused(t, testenv.Error(s.Reserve(ctx, "", "", 1)), full)
		grown.Release()
		whole := testenv.Must(s.Reserve(ctx, "", "", 100))(t)
		whole.Release()

		s = newShelf(t, keys.Limits{OpenUploads: 2})
		var uploads []*access.Reservation
		for range 2 {
			r := testenv.Must(s.ReserveUpload(ctx, "u", ""))(t)
			uploads = append(uploads, r)
		}
		refused(t, testenv.Error(s.ReserveUpload(ctx, "u", "")), access.QuotaError{Of: "open uploads", Limit: 2, Used: 2, Wanted: 1})
		uploads[0].Release()
		begun := testenv.Must(s.blobs.Begin(ctx, blob.BeginOptions{Account: "a", Name: "u", PartSize: 1, Owner: s.owner}))(t)
		uploads[1].Keep()
		last := testenv.Must(s.ReserveUpload(ctx, "u", ""))(t)
		refused(t, testenv.Error(s.ReserveUpload(ctx, "u", "")), access.QuotaError{Of: "open uploads", Limit: 2, Used: 2, Wanted: 1})
		last.Release()
		testenv.Check(t, s.blobs.Abort(ctx, begun.ID))
		for range 2 {
			testenv.Check(t, testenv.Error(s.ReserveUpload(ctx, "u", "")))
		}
	})
}

// TestUsageIsRemembered checks that the usage is cached for a second while requests fit.
func TestUsageIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t, keys.Limits{StoredBytes: 1 << 30})
		for i := range 100 {
			testenv.Check(t, s.put(t, fmt.Sprint(i), 1))
		}
		testenv.Equal(t, s.line.asked.Load(), 1, "lookups at one time")
		time.Sleep(time.Second)
		if err := s.put(t, "a second later", 1); err != nil || s.line.asked.Load() != 1 {
			t.Errorf("%v, %d lookups in a second", err, s.line.asked.Load())
		}
		time.Sleep(time.Nanosecond)
		if err := s.put(t, "later", 1); err != nil || s.line.asked.Load() != 2 {
			t.Errorf("%v, %d lookups in more than a second", err, s.line.asked.Load())
		}
	})
}

// TestStoredDuringALookup checks that a blob counts that was committed after the store read the
// usage and before it returned it.
func TestStoredDuringALookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := metastore.Charge("a", "") + metastore.Charge("b", "")
		limit := 100 + taken + metastore.RowCharge
		s := newShelf(t, keys.Limits{StoredBytes: limit})
		testenv.Check(t, s.put(t, "a", 10))
		looked, goOn := make(chan metastore.Used), make(chan struct{})
		hold := func(used metastore.Used) { looked <- used; <-goOn }
		s.line.usage.Store(&hold)
		late := make(chan error)
		r := testenv.Must(s.Reserve(t.Context(), "b", "", 50))(t)
		go func() { _, err := s.Reserve(t.Context(), "", "", 41); late <- err }()
		testenv.Equal(t, (<-looked).Bytes, 10, "bytes stored")
		put := blob.PutOptions{Account: "a", Name: "b", Owner: s.owner}
		testenv.Check(t, testenv.Error(s.blobs.Put(t.Context(), put, bytes.NewReader(make([]byte, 50)), 50)))
		r.Keep()
		s.line.usage.Store(nil)
		close(goOn)
		refused(t, <-late, access.QuotaError{Of: "stored bytes", Limit: limit, Used: 60 + taken, Wanted: 41 + metastore.RowCharge})
		testenv.Check(t, testenv.Error(s.Reserve(t.Context(), "", "", 40)))
	})
}

// TestOneRequestForConcurrentCallers checks that callers that arrive during a lookup share one
// further lookup, or its error.
func TestOneRequestForConcurrentCallers(t *testing.T) {
	for name, fails := range map[string]bool{"answered": false, "failed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf(t, keys.Limits{StoredBytes: 1 << 30})
				goOn := make(chan struct{})
				hold := func(metastore.Used) { <-goOn }
				s.line.usage.Store(&hold)
				gone, leave := context.WithCancel(t.Context())
				first := make(chan error)
				go func() { _, err := s.Reserve(gone, "", "", 1); first <- err }()
				synctest.Wait()
				var wg sync.WaitGroup
				var failures atomic.Int64
				for range 50 {
					wg.Go(func() {
						if _, err := s.Reserve(t.Context(), "", "", 1); errors.Is(err, errDown) {
							failures.Add(1)
						} else if err != nil {
							t.Error(err)
						}
					})
				}
				synctest.Wait()
				leave() // the lookup's caller is cancelled, and the rest still get the result
				synctest.Wait()
				if fails {
					s.line.down(errDown)
				}
				close(goOn)
				testenv.Is(t, <-first, nil, "the first")
				wg.Wait()
				if n := s.line.asked.Load(); n != 2 || failures.Load() != map[bool]int64{true: 50}[fails] {
					t.Errorf("%d lookups, %d failures", n, failures.Load())
				}
				s.line.up()
				testenv.Is(t, testenv.Error(s.Reserve(t.Context(), "", "", 1)), nil, "up again")
			})
		})
	}
}

// TestReserveEndsWithItsContext checks that a cancelled Reserve returns while another waits for the
// result.
func TestReserveEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t, keys.Limits{StoredBytes: 1 << 30})
		goOn := make(chan struct{})
		hold := func(metastore.Used) { <-goOn }
		s.line.usage.Store(&hold)
		asks := make(chan error)
		go func() { _, err := s.Reserve(t.Context(), "", "", 1); asks <- err }()
		synctest.Wait()
		gone, leave := context.WithCancel(t.Context())
		waits := make(chan error)
		go func() { _, err := s.Reserve(gone, "", "", 1); waits <- err }()
		synctest.Wait()
		leave()
		testenv.Is(t, <-waits, context.Canceled, "a cancelled caller")
		close(goOn)
		testenv.Check(t, <-asks)
	})
}

// TestWithoutAQuotaNothingIsLookedUp checks keys and addresses without a quota.
func TestWithoutAQuotaNothingIsLookedUp(t *testing.T) {
	s := newShelf(t, keys.Limits{})
	s.line.down(errDown)
	for name, a := range map[string]*access.Allowance{"key": s.Allowance, "address": allowance(keys.Limits{StoredBytes: 1, StoredObjects: 1, OpenUploads: 1, Channels: 1})} {
		t.Run(name, func(t *testing.T) {
			bytes := testenv.Must(a.Reserve(t.Context(), "", "", math.MaxInt64))(t)
			upload := testenv.Must(a.ReserveUpload(t.Context(), "", ""))(t)
			testenv.OK(t, bytes.Grow(math.MaxInt64))
			channel := testenv.Must(a.ReserveChannel(t.Context(), true))(t)
			bytes.Keep()
			upload.Release()
			channel.Keep()
		})
	}
	testenv.Equal(t, s.line.asked.Load(), 0, "lookups")
}

// TestQuotaRace checks that, whatever concurrent writers do, no more than the quota is ever
// stored, and hardly less in the end.
// Invariants 40, 41, 43.
func TestQuotaRace(t *testing.T) {
	for name, limits := range map[string]keys.Limits{
		"bytes": {StoredBytes: 150_000, OccupiedBytes: keys.Unlimited}, "objects": {StoredObjects: 100}, "occupied": {OccupiedBytes: 300_000},
	} {
		t.Run(name, func(t *testing.T) { raceForQuota(t, limits) })
	}
}

func raceForQuota(t *testing.T, limits keys.Limits) {
	const biggest = 500
	within := func(used metastore.Used) bool {
		return (limits.StoredBytes == 0 || used.Stored() <= limits.StoredBytes) && (limits.StoredObjects == 0 || used.Objects <= limits.StoredObjects) &&
			(limits.OccupiedBytes <= 0 || used.Occupied() <= limits.OccupiedBytes)
	}
	s := newShelf(t, limits)
	var stored, refusals atomic.Int64
	done := make(chan struct{})
	watched := make(chan int)
	go func() { // the store's count, at any time
		looks := 0
		for {
			if used := s.used(t); !within(used) {
				t.Errorf("%+v is stored", used)
			}
			looks++
			select {
			case <-done:
				watched <- looks
				return
			default:
			}
		}
	}()
	var wg sync.WaitGroup
	for w := range 16 {
		random := rand.New(rand.NewPCG(1, uint64(w)))
		wg.Go(func() {
			for i := range 60 {
				name := fmt.Sprint(w, " ", random.IntN(20)) // some are overwritten
				if i%6 == 5 {
					s.remove(t, name)
					continue
				}
				r, err := s.Reserve(t.Context(), name, "", 1)
				if err == nil { // a body that is interrupted
					err = r.Grow(random.Int64N(biggest))
					r.Release()
				}
				if err != nil && !errors.Is(err, access.ErrQuota) {
					t.Error(err)
				}
				switch err := s.put(t, name, 1+random.Int64N(biggest)); {
				case err == nil:
					stored.Add(1)
				case errors.Is(err, access.ErrQuota):
					refusals.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(done)
	t.Logf("%d stored, %d refused, looked %d times", stored.Load(), refusals.Load(), <-watched)
	const rest = "rest %019d"
	for size := int64(biggest); size > 0; { // one writer alone can fill the rest until a byte does not fit
		if err := s.put(t, fmt.Sprintf(rest, rand.Int()), size); errors.Is(err, access.ErrQuota) {
			size /= 2
		}
	}
	more := s.used(t)
	more.Bytes, more.Objects, more.Names = more.Bytes+1, more.Objects+1, more.Names+int64(len(fmt.Sprintf(rest, 0)))
	if !within(s.used(t)) || within(more) || refusals.Load() == 0 {
		t.Errorf("%+v is stored of %+v, after %d refusals", s.used(t), limits, refusals.Load())
	}
}
