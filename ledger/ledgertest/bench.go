package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/ledger"
	"sluice/test/testclock"
	"sluice/test/testenv"
)

// Bench measures a store's uses and paid reads, by one caller and by 64.
func Bench(b *testing.B, newHarness func(testing.TB) *dbtest.Harness) {
	for name, setUp := range map[string]func(*bench) func(i int) error{
		"use-one-session":       func(b *bench) func(int) error { return useSessions(b, 1) },
		"use-64-sessions":       func(b *bench) func(int) error { return useSessions(b, 64) },
		"use-1000-sessions":     func(b *bench) func(int) error { return useSessions(b, 1000) },
		"use-10000-sessions":    func(b *bench) func(int) error { return useSessions(b, 10_000) },
		"read-paid-64-channels": payReads,
	} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/callers=%d", name, callers), func(b *testing.B) { measure(b, newHarness(b), callers, setUp) })
		}
	}
}

// bench is a running benchmark.
type bench struct {
	*testing.B
	Ctx   context.Context
	Clock *testclock.Clock
	Store whole.Database
}

// measure runs a benchmark. In addition to the time of one call, it reports the calls per second of
// all callers. setUp prepares the store and returns the call.
func measure(b *testing.B, h *dbtest.Harness, callers int, setUp func(*bench) func(i int) error) {
	s, err := h.Open()
	testenv.OK(b, err)
	call := setUp(&bench{B: b, Ctx: b.Context(), Clock: h.Clock, Store: s})
	b.ReportAllocs()
	b.ResetTimer()
	err = each(b.N, callers, call)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	testenv.OK(b, errors.Join(err, h.Close()))
}

// each calls fn with 0 to n-1 from several goroutines.
func each(n, callers int, fn func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for errs[c] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				errs[c] = fn(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Fill performs the preparation.
func (b *bench) Fill(n int, fn func(i int) error) {
	b.Helper()
	testenv.OK(b, each(n, 64, fn))
}

func useSessions(b *bench, n int) func(int) error {
	id := func(i int) string { return fmt.Sprintf("session-%012x", uint32(i)*2654435761) }
	b.Fill(n, func(i int) error {
		return dbtest.Error(b.Store.CreateSession(b.Ctx, ledger.Session{ID: id(i), UserIdentity: fmt.Sprintf("0x%064x", i), Total: 1 << 40, Left: 1 << 40, Expires: b.Clock.Now().Add(time.Hour)}, nil))
	})
	return func(i int) error { return dbtest.Error(b.Store.UseSession(b.Ctx, id(i*7919%n), 1, nil)) }
}

// payReads pays over 64 channels, one payment at a time on each.
func payReads(b *bench) func(int) error {
	type payer struct {
		sync.Mutex
		ledger.Offer
	}
	payers := make([]payer, 64)
	b.Fill(len(payers), func(i int) error {
		payers[i].Offer = ledger.Offer{Payment: ledger.Payment{
			Sender: fmt.Sprint("sender", i), Receiver: "receiver", Asset: "asset", Proof: make([]byte, 371),
			Expires: b.Clock.Now().Add(time.Minute),
		}, Policy: ledger.Policy{UnsettledLimit: 1 << 62}}
		_, err := b.Store.OpenChannel(b.Ctx, ledger.Channel{
			ID: fmt.Sprint("channel", i), Sender: payers[i].Sender, Receiver: "receiver", Asset: "asset",
			Deposit: 1 << 62, Expires: b.Clock.Now().Add(time.Hour),
		}, nil)
		return err
	})
	return func(i int) error {
		p := &payers[i%len(payers)]
		p.Lock()
		defer p.Unlock()
		p.Sequence++
		p.Amount += 4
		_, err := b.Store.PayRead(b.Ctx, ledger.ReadPurchase{Offer: p.Offer, Price: 2, Count: 2})
		return err
	}
}
