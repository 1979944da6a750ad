package metatest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/database/whole"
	"sluice/internal/testclock"
	"sluice/ledger"
	"sluice/metastore"
)

// Bench measures a store. Each benchmark has a separate harness. In addition to the time of one
// call, it reports the calls per second of all callers.
func Bench(b *testing.B, newHarness func(testing.TB) *Harness) {
	for _, callers := range []int{1, 64} {
		at := func(name string, setUp func(*bench) func(i int) error) {
			b.Run(fmt.Sprintf("%s/callers=%d", name, callers), func(b *testing.B) {
				measure(b, newHarness(b), callers, setUp)
			})
		}
		at("commit-4KiB-inline", func(p *bench) func(int) error { return commitInline(p, "") })
		at("commit-4KiB-owned", func(p *bench) func(int) error { return commitInline(p, "owner") })
		at("use-one-session", func(p *bench) func(int) error { return useSessions(p, 1) })
		at("use-64-sessions", func(p *bench) func(int) error { return useSessions(p, 64) })
		at("use-10000-sessions", func(p *bench) func(int) error { return useSessions(p, 10_000) })
		at("read-paid-64-channels", payReads)
		at("blob-lookup", blobLookup)
	}
	for name, setUp := range map[string]func(*bench) func(int) error{
		"list-1000-names":        listNames,
		"list-groups":            listGroups,
		"complete-10000-parts":   completeParts,
		"drop-1000-extents":      dropExtents,
		"unreferenced-1000-keys": unreferencedKeys,
	} {
		b.Run(name, func(b *testing.B) { measure(b, newHarness(b), 1, setUp) })
	}
}

// bench is a running benchmark.
type bench struct {
	*testing.B
	ctx   context.Context
	clock *testclock.Clock
	store whole.Database
	keys  atomic.Int64
	spent time.Duration // within what timed measures
}

func measure(b *testing.B, h *Harness, callers int, setUp func(*bench) func(i int) error) {
	s, err := h.Open()
	if err != nil {
		b.Fatal(err)
	}
	call := setUp(&bench{B: b, ctx: b.Context(), clock: h.Clock, store: s})
	b.ReportAllocs()
	b.ResetTimer()
	if err := each(b.N, callers, call); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	if err := h.Close(); err != nil {
		b.Fatal(err)
	}
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

// fill performs the preparation.
func (b *bench) fill(n int, fn func(i int) error) {
	b.Helper()
	if err := each(n, 64, fn); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) extent(part int, off, size int64) metastore.Extent {
	n := b.keys.Add(1)
	return metastore.Extent{
		Part: part, Offset: off, Size: size, Blocks: make([]uint32, (size+mib-1)/mib),
		Key: fmt.Sprintf("%02x-%044x", byte(n*167), n), Created: b.clock.Now(),
	}
}

func (b *bench) commit(name string, extents ...metastore.Extent) (metastore.Blob, error) {
	return b.commitFor("", name, extents...)
}

func (b *bench) commitFor(owner, name string, extents ...metastore.Extent) (metastore.Blob, error) {
	blob := metastore.Blob{Account: "account", Name: name, Content: metastore.NewContentID(time.Now()), ContentType: "text/plain", Owner: owner}
	for _, e := range extents {
		blob.Size += e.Size
	}
	return b.store.CommitBlob(b.ctx, blob, extents, nil)
}

func commitInline(b *bench, owner string) func(int) error {
	body := make([]byte, 4096)
	return func(i int) error {
		_, err := b.commitFor(owner, fmt.Sprintf("folder/%08x", uint32(i)*2654435761),
			metastore.Extent{Size: int64(len(body)), Blocks: []uint32{1}, Body: body})
		return err
	}
}

func useSessions(b *bench, n int) func(int) error {
	id := func(i int) string { return fmt.Sprintf("session-%012x", uint32(i)*2654435761) }
	b.fill(n, func(i int) error {
		_, err := b.store.CreateSession(b.ctx, ledger.Session{ID: id(i), Total: 1 << 40, Left: 1 << 40, Expires: b.clock.Now().Add(time.Hour)}, nil)
		return err
	})
	return func(i int) error {
		_, err := b.store.UseSession(b.ctx, id(i*7919%n), 1, nil)
		return err
	}
}

// payReads pays over 64 channels, one payment at a time on each.
func payReads(b *bench) func(int) error {
	type payer struct {
		sync.Mutex
		ledger.Payment
	}
	payers := make([]payer, 64)
	b.fill(len(payers), func(i int) error {
		payers[i].Payment = ledger.Payment{
			Sender: fmt.Sprint("sender", i), Receiver: "receiver", Asset: "asset", Proof: make([]byte, 371),
			Expires: b.clock.Now().Add(time.Minute), UnsettledLimit: 1 << 62,
		}
		_, err := b.store.OpenChannel(b.ctx, ledger.Channel{
			ID: fmt.Sprint("channel", i), Sender: payers[i].Sender, Receiver: "receiver", Asset: "asset",
			Deposit: 1 << 62, Expires: b.clock.Now().Add(time.Hour),
		}, nil)
		return err
	})
	return func(i int) error {
		p := &payers[i%len(payers)]
		p.Lock()
		defer p.Unlock()
		p.Sequence++
		p.Amount += 4
		_, err := b.store.PayRead(b.ctx, ledger.ReadPurchase{Payment: p.Payment, Price: 2, Count: 2})
		return err
	}
}

const lookedUp = 100_000

func numbered(i int) string { return fmt.Sprintf("folder/name-%07d", i) }

func (b *bench) fillNames() {
	b.fill(lookedUp, func(i int) error {
		_, err := b.commit(numbered(i), b.extent(0, 0, 100))
		return err
	})
}

func blobLookup(b *bench) func(int) error {
	b.fillNames()
	return func(i int) error {
		_, err := b.store.Blob(b.ctx, "account", numbered(i*7919%lookedUp))
		return err
	}
}

func listNames(b *bench) func(int) error {
	b.fillNames()
	return func(i int) error {
		page, err := b.store.ListBlobs(b.ctx, metastore.ListQuery{Account: "account", After: numbered(i * 7919 % (lookedUp - 1001)), Limit: 1000})
		if err == nil && len(page.Blobs) != 1000 {
			err = fmt.Errorf("%d names on the page", len(page.Blobs))
		}
		return err
	}
}

// listGroups lists ten groups of which one holds nearly all the names.
func listGroups(b *bench) func(int) error {
	b.fillNames()
	b.fill(9, func(i int) error {
		_, err := b.commit(fmt.Sprintf("%d/name", i))
		return err
	})
	return func(int) error {
		page, err := b.store.ListBlobs(b.ctx, metastore.ListQuery{Account: "account", Delimiter: "/", Limit: 1000})
		if err == nil && len(page.Prefixes) != 10 {
			err = fmt.Errorf("%d groups on the page", len(page.Prefixes))
		}
		return err
	}
}

// putParts stores an upload of 10,000 parts, of which a fifth was sent twice.
func (b *bench) putParts(id string) metastore.Upload {
	const parts = 10_000
	_, err := b.store.BeginUpload(b.ctx, metastore.Upload{ID: id, Account: "account", Name: "big", Content: metastore.NewContentID(time.Now()), PartSize: mib})
	if err != nil {
		b.Fatal(err)
	}
	b.fill(parts+parts/5, func(i int) error {
		return b.store.PutPart(b.ctx, id, metastore.Part{Index: i % parts, Size: mib}, []metastore.Extent{b.extent(i%parts, 0, mib)})
	})
	u, err := b.store.Upload(b.ctx, id)
	if err != nil {
		b.Fatal(err)
	}
	return u
}

// timed measures a part of a benchmark, and reports it under a name. The preparation takes much
// longer and counts in the benchmark's own time, so the number of rounds stays small.
func (b *bench) timed(metric string, fn func() error) error {
	start := time.Now()
	err := fn()
	b.spent += time.Since(start)
	b.ReportMetric(float64(b.spent.Microseconds())/float64(b.N), metric)
	return err
}

func completeParts(b *bench) func(int) error {
	return func(i int) error {
		u := b.putParts(fmt.Sprint("upload", i))
		return b.timed("µs/complete", func() error {
			_, err := b.store.CompleteUpload(b.ctx, u.ID, u.Revision, u.Bytes, 1, nil)
			return err
		})
	}
}

func dropExtents(b *bench) func(int) error {
	return func(int) error {
		var extents []metastore.Extent
		for k := range int64(1000) {
			extents = append(extents, b.extent(0, k*mib, mib))
		}
		blob, err := b.commit("name", extents...)
		if err == nil {
			_, _, err = b.store.DeleteBlob(b.ctx, "account", "name", nil)
		}
		return errors.Join(err, b.timed("µs/drop", func() error {
			return b.store.DropExtents(b.ctx, blob.Content, positions(extents))
		}))
	}
}

func unreferencedKeys(b *bench) func(int) error {
	b.fillNames()
	return func(i int) error {
		keys := make([]string, 1000)
		for k := range keys {
			n := (i*1000 + k) * 7919 % (2 * lookedUp)
			keys[k] = fmt.Sprintf("%02x-%044x", byte(n*167), n)
		}
		_, err := b.store.Unreferenced(b.ctx, keys)
		return err
	}
}
