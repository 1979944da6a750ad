package access_test

import (
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/test/testenv"
)

func TestAddressesThatShareAnAllowance(t *testing.T) {
	l := access.NewLimiter(access.LimiterOptions{})
	for _, c := range []struct {
		a, b   string // "" for the invalid address
		shared bool
	}{
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"::ffff:192.0.2.1", "::ffff:192.0.2.2", false},
		{"2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true},
		{"2001:db8::1", "2001:db8:0:1::1", false},
		{"fe80::1%eth0", "fe80::1", true},
		{"fe80::1%eth0", "fe80::2%eth1", true},
		{"::ffff:192.0.2.1", "::1", false},
		{"0.0.0.0", "::", false},
		{"", "", true},
		{"", "0.0.0.0", false},
		{"", "::", false},
	} {
		testenv.Equal(t, l.OfAddress(parse(c.a)) == l.OfAddress(parse(c.b)), c.shared, "whether %q and %q share", c.a, c.b)
	}
}

func parse(text string) netip.Addr {
	if text == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr(text)
}

func TestKeysThatShareAnAllowance(t *testing.T) {
	store := openStores(t, 1)[0]
	l := access.NewLimiter(access.LimiterOptions{})
	a, b := callerOf(t, store, access.NewKey{Group: "g"}), callerOf(t, store, access.NewKey{Group: "g"})
	alone := callerOf(t, store, access.NewKey{})
	if l.OfKey(a) != l.OfKey(b) || l.OfKey(a) == l.OfKey(alone) {
		t.Error("keys in one group do not share, or keys in two do")
	}
}

func TestWhichLimitHolds(t *testing.T) {
	store := openStores(t, 1)[0]
	l := access.NewLimiter(access.LimiterOptions{
		Key:     keys.Limits{RequestsPerSecond: 10, BytesInPerSecond: 20, BytesOutPerSecond: keys.Unlimited, StoredBytes: 40},
		Address: keys.Limits{RequestsPerSecond: 1, ConcurrentRequests: 2, StoredBytes: 3, OpenUploads: 4, Channels: 5},
	})
	const none = keys.Unlimited
	own := keys.Limits{RequestsPerSecond: 11, BytesInPerSecond: none, BytesOutPerSecond: 31, OpenUploads: 61, Channels: 71}
	for name, c := range map[string]struct {
		got  keys.Limits
		want [7]int64 // in the fields' order
	}{
		"keys by default":      {l.KeyLimits(), [7]int64{10, 20, none, none, 40, none, none}},
		"addresses":            {l.AddressLimits(), [7]int64{1, none, none, 2, none, none, none}},
		"an address":           {l.OfAddress(netip.IPv6Loopback()).Limits(), [7]int64{1, none, none, 2, none, none, none}},
		"a key without limits": {l.OfKey(callerOf(t, store, access.NewKey{})).Limits(), [7]int64{10, 20, none, none, 40, none, none}},
		"a key with limits":    {l.OfKey(callerOf(t, store, access.NewKey{Limits: own})).Limits(), [7]int64{11, none, 31, none, 40, 61, 71}},
	} {
		got := [7]int64{
			c.got.RequestsPerSecond, c.got.BytesInPerSecond, c.got.BytesOutPerSecond, c.got.ConcurrentRequests, c.got.StoredBytes, c.got.OpenUploads, c.got.Channels,
		}
		testenv.Equal(t, got, c.want, "%s", name)
	}
}

// TestHoldersAreIndependent checks that the name by which the server shares its slots is unique for
// each Allowance.
func TestHoldersAreIndependent(t *testing.T) {
	store := openStores(t, 1)[0]
	l := access.NewLimiter(access.LimiterOptions{})
	seen := map[string]string{}
	for name, a := range map[string]*access.Allowance{
		"an address":                         l.OfAddress(netip.MustParseAddr("192.0.2.1")),
		"a network":                          l.OfAddress(netip.MustParseAddr("2001:db8::1")),
		"a group":                            l.OfKey(callerOf(t, store, access.NewKey{Group: "g"})),
		"a group with the name of a network": l.OfKey(callerOf(t, store, access.NewKey{Group: "network"})),
	} {
		if other, taken := seen[a.Holder()]; taken {
			t.Errorf("%s and %s are both %q", name, other, a.Holder())
		}
		seen[a.Holder()] = name
	}
	again := l.OfAddress(netip.MustParseAddr("2001:db8::2")) // in the same /64
	testenv.Equal(t, seen[again.Holder()], "a network", "another address of a network")
}

// TestLimitsThatChange checks that changed limits apply to an Allowance in use, as soon as a key is
// authenticated with them.
func TestLimitsThatChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Two stores represent one in which an operator changed the group.
		wide := callerOf(t, openStores(t, 1)[0], access.NewKey{Group: "g", Limits: keys.Limits{
			RequestsPerSecond: 1000, BytesOutPerSecond: 512 << 20,
		}})
		narrow := callerOf(t, openStores(t, 1)[0], access.NewKey{Group: "g", Limits: keys.Limits{
			RequestsPerSecond: 1, BytesOutPerSecond: 1 << 10, ConcurrentRequests: 1,
		}})
		free := callerOf(t, openStores(t, 1)[0], access.NewKey{Group: "g"})

		l := access.NewLimiter(access.LimiterOptions{})
		a := l.OfKey(wide)
		for range 2 {
			leave := enter(t, a)
			defer leave()
		}
		for range 2998 { // a debt; 2 s of it remain when the rate falls
			go func() {
				if leave, err := a.Enter(t.Context()); err == nil {
					leave()
				}
			}()
		}
		synctest.Wait()
		if l.OfKey(narrow) != a {
			t.Fatal("the Allowance is a different one")
		}
		if _, err := a.Enter(t.Context()); err == nil {
			t.Error("more concurrent requests than the new limit")
		}
		if left, _ := a.Requests(); left != 1 {
			t.Errorf("%d requests of the new rate are left", left)
		}
		start := time.Now()
		testenv.Check(t, a.PaceOut(t.Context(), 10<<10))
		if took := since(start); !within(took, 10, 0.1) {
			t.Errorf("10 s of the new rate took %v s", took)
		}

		waiting := make(chan float64)
		go func() {
			testenv.Check(t, a.PaceOut(t.Context(), 1<<20))
			waiting <- since(start)
		}()
		synctest.Wait()
		start = time.Now()
		l.OfKey(free)
		if took := <-waiting; took > 0.2 {
			t.Errorf("a waiter during the change continued after %v s", took)
		}
		if left, full := a.Requests(); left < 1<<60 || full != 0 {
			t.Errorf("without a limit %d requests are left, whole after %v", left, full)
		}
	})
}

// TestLimiterRaces runs many concurrent requests for a few holders. Hardly any is cached.
func TestLimiterRaces(t *testing.T) {
	const limit = 3
	l := access.NewLimiter(access.LimiterOptions{Recent: 1, Address: keys.Limits{ConcurrentRequests: limit}})
	var mu sync.Mutex
	working, entered, refused := map[byte]int{}, 0, 0
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 2_000 {
				who := byte((i + j) % 3)
				a := l.OfAddress(netip.AddrFrom4([4]byte{192, 0, 2, who}))
				leave, err := a.Enter(t.Context())
				mu.Lock()
				if err != nil {
					refused++
					mu.Unlock()
					a.Release()
					continue
				}
				entered++
				if working[who]++; working[who] > limit {
					t.Errorf("%d requests of one address run concurrently, want at most %d", working[who], limit)
				}
				mu.Unlock()
				if j%5 == 0 {
					l.OfAddress(netip.AddrFrom4([4]byte{10, 0, byte(i), byte(j)})).Release()
				}
				mu.Lock()
				working[who]--
				mu.Unlock()
				leave()
				a.Release()
			}
		})
	}
	wg.Wait()
	if entered == 0 {
		t.Error("no request entered")
	}
	t.Logf("%d entered, %d were refused", entered, refused)
}

// TestSpend: a request's additional cost delays those after it, and at most by a second and the
// wait of one request.
// Invariant 74.
func TestSpend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := access.NewLimiter(access.LimiterOptions{Address: keys.Limits{RequestsPerSecond: 10, ConcurrentRequests: 100}})
		a := l.OfAddress(netip.MustParseAddr("10.0.0.1"))
		defer a.Release()
		for _, c := range []struct {
			n     int64
			after time.Duration
		}{{0, 100 * time.Millisecond}, {3, 400 * time.Millisecond}, {1000, 1100 * time.Millisecond}} {
			leave := testenv.Must(a.Enter(t.Context()))(t)
			a.Spend(c.n)
			leave()
			if _, full := a.Requests(); full.Round(time.Millisecond) != c.after {
				t.Errorf("after a request that costs %d more, the rate is full in %v, want %v", c.n, full, c.after)
			}
			time.Sleep(10 * time.Second)
		}
		for range 10 {
			testenv.Must(a.Enter(t.Context()))(t)
		}
		a.Spend(10)
		a.Spend(10)
		var rate *access.RateError
		if _, err := a.Enter(t.Context()); !errors.As(err, &rate) {
			t.Errorf("a request of a caller that has spent two seconds in advance: %v", err)
		}
		unlimited := access.NewLimiter(access.LimiterOptions{}).OfAddress(netip.MustParseAddr("10.0.0.1"))
		defer unlimited.Release()
		unlimited.Spend(1 << 40)
		testenv.Is(t, testenv.Error(unlimited.Enter(t.Context())), nil, "a caller without a limit")
	})
}
