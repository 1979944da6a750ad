package access_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"

	"sluice/access"
	"sluice/access/keys"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestHits hits each kind of limit, and checks that it is counted, and no other.
func TestHits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores := openStores(t, 1)
		for kind, k := range keys.LimitKinds {
			limits := keys.NoLimits()
			*k.Of(&limits) = 1
			options := access.LimiterOptions{Key: limits, Address: limits, Usage: stores[0]}
			if k.Name == "stored bytes" {
				*k.Of(&options.Key) = metastore.RowCharge // too little for a blob with a name
			}
			limiter := access.NewLimiter(options)
			caller := callerOf(t, stores[0], access.NewKey{Group: fmt.Sprint("g", kind)})
			hit(t, limiter, caller, k)
			for other := range keys.LimitKinds {
				testenv.Equal(t, limiter.Hits(other) > 0, (other == kind), "%s: whether %s is counted", k.Name, keys.LimitKinds[other].Name)
			}
		}
	})
}

// hit hits a limit of 1.
func hit(t *testing.T, limiter *access.Limiter, caller *access.Caller, k keys.LimitKind) {
	t.Helper()
	a := limiter.OfAddress(netip.MustParseAddr("192.0.2.1"))
	if k.Quota() {
		a = limiter.OfKey(caller)
	}
	defer a.Release()
	enter := func() error { return testenv.Error(a.Enter(t.Context())) } // it does not leave
	pace := func(wait func() error) error { return errors.Join(wait(), wait()) }
	var err, want error
	switch k.Name {
	case "requests per second":
		errs := make(chan error, 10)
		for range cap(errs) {
			go func() { errs <- enter() }()
		}
		for range cap(errs) {
			err = errors.Join(err, <-errs)
		}
		want = access.ErrRate
	case "concurrent requests":
		err, want = errors.Join(enter(), enter()), access.ErrConcurrent
	case "bytes in per second":
		err = pace(func() error { return a.PaceIn(t.Context(), 1) })
	case "bytes out per second":
		err = pace(func() error { return a.PaceOut(t.Context(), 1) })
	case "stored bytes", "occupied bytes", "stored objects":
		for range 2 {
			_, err = a.Reserve(t.Context(), "name", "", 1)
		}
		want = access.ErrQuota
	case "open uploads":
		for range 2 {
			_, err = a.ReserveUpload(t.Context(), "name", "")
		}
		want = access.ErrQuota
	case "channels":
		for range 2 {
			_, err = a.ReserveChannel(t.Context(), false)
		}
		want = access.ErrQuota
	default:
		t.Fatalf("the test does not know the limit %s", k.Name)
	}
	testenv.Is(t, err, want, "%s", k.Name)
}
