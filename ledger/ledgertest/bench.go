package ledgertest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"sluice/database/dbtest"
	"sluice/ledger"
)

// Bench measures a store.
func Bench(b *testing.B, newHarness func(testing.TB) *dbtest.Harness) {
	many := []int{1, 64}
	dbtest.Measure(b, newHarness, "use-one-session", many, func(p *dbtest.Bench) func(int) error { return useSessions(p, 1) })
	dbtest.Measure(b, newHarness, "use-64-sessions", many, func(p *dbtest.Bench) func(int) error { return useSessions(p, 64) })
	dbtest.Measure(b, newHarness, "use-10000-sessions", many, func(p *dbtest.Bench) func(int) error { return useSessions(p, 10_000) })
	dbtest.Measure(b, newHarness, "read-paid-64-channels", many, payReads)
}

func useSessions(b *dbtest.Bench, n int) func(int) error {
	id := func(i int) string { return fmt.Sprintf("session-%012x", uint32(i)*2654435761) }
	b.Fill(n, func(i int) error {
		return dbtest.Error(b.Store.CreateSession(b.Ctx, ledger.Session{ID: id(i), Total: 1 << 40, Left: 1 << 40, Expires: b.Clock.Now().Add(time.Hour)}, nil))
	})
	return func(i int) error { return dbtest.Error(b.Store.UseSession(b.Ctx, id(i*7919%n), 1, nil)) }
}

// payReads pays over 64 channels, one payment at a time on each.
func payReads(b *dbtest.Bench) func(int) error {
	type payer struct {
		sync.Mutex
		ledger.Payment
	}
	payers := make([]payer, 64)
	b.Fill(len(payers), func(i int) error {
		payers[i].Payment = ledger.Payment{
			Sender: fmt.Sprint("sender", i), Receiver: "receiver", Asset: "asset", Proof: make([]byte, 371),
			Expires: b.Clock.Now().Add(time.Minute), UnsettledLimit: 1 << 62,
		}
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
		_, err := b.Store.PayRead(b.Ctx, ledger.ReadPurchase{Payment: p.Payment, Price: 2, Count: 2})
		return err
	}
}
