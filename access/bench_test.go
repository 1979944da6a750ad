package access_test

import (
	"context"
	"net/netip"
	"runtime"
	"sync"
	"testing"

	"sluice/access"
	"sluice/access/keys"
	"sluice/test/testenv"
)

// BenchmarkAuthenticate measures a cached key.
func BenchmarkAuthenticate(b *testing.B) {
	store := openStores(b, 1)[0]
	served := &line{Database: store}
	_, credential := makeKey(b, store, access.NewKey{Accounts: []string{"a"}})
	keys := access.NewAuthenticator(served, access.AuthenticatorOptions{})
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() { keys.Run(ctx, func(err error) { b.Error(err) }) })
	defer wg.Wait()
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		testenv.Must(keys.Authenticate(ctx, credential))(b)
	}
	b.ReportMetric(float64(served.lookups.Load()), "lookups")
}

// BenchmarkEnter measures an address that is cached, without and with a rate.
func BenchmarkEnter(b *testing.B) {
	for name, limits := range map[string]keys.Limits{"unlimited": {}, "limited": {RequestsPerSecond: 1 << 40, ConcurrentRequests: 64}} {
		b.Run(name, func(b *testing.B) {
			l := access.NewLimiter(access.LimiterOptions{Address: limits})
			b.ReportAllocs()
			for b.Loop() {
				a := l.OfAddress(netip.IPv6Loopback())
				enter(b, a)()
				a.Release()
			}
		})
	}
}

// BenchmarkPaceOut measures the cost of pacing that never waits, for one stream and for 64
// concurrent ones.
func BenchmarkPaceOut(b *testing.B) {
	for name, bytesPerSecond := range map[string]int64{"unlimited": keys.Unlimited, "limited": 1 << 60} {
		a := paced(bytesPerSecond)
		b.Run(name+"/alone", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				testenv.OK(b, a.PaceOut(b.Context(), 1))
			}
		})
		b.Run(name+"/64 streams", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism((64 + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					testenv.Check(b, a.PaceOut(b.Context(), 1))
				}
			})
		})
	}
}
