package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"sluice/blob"
	"sluice/history"
	"sluice/test/testenv"
)

// TestConcurrentSweepers runs two services over the same stores. Each purges, frees and sweeps
// while both write and read. They must not delete anything that is referenced, and must leave no
// orphan.
// Invariant 130.
func TestConcurrentSweepers(t *testing.T) {
	const rounds, orphans, writers, turns = 4, 40, 4, 10
	ctx := context.Background()
	opt := blob.Options{InlineSize: -1, ExtentSize: 1 << 20, GarbageGrace: time.Hour}
	first := newFixture(t, opt)
	second := *first
	second.Service = blob.New(first.meta, first.bytes, opt)
	both := []*fixture{first, &second}
	testenv.Must(history.Bind(ctx, first.meta, first.bytes))(t)
	for round := range rounds {
		for range orphans {
			first.orphan(t)
		}
		first.clock.Advance(blob.OrphanAge) // the last round's garbage is due
		var work sync.WaitGroup
		for _, f := range both {
			for _, task := range []func() error{
				func() error { _, err := f.SweepOrphans(ctx); return err },
				func() error { return f.FreeGarbage(ctx) },
				func() error { return f.Purge(ctx) },
			} {
				work.Go(func() {
					testenv.Check(t, errors.Join(task(), task()))
				})
			}
		}
		for w := range writers {
			random := rand.New(rand.NewPCG(uint64(round), uint64(w)))
			work.Go(func() {
				for range turns {
					testenv.Check(t, rewrite(ctx, both, fmt.Sprint("name ", w), random))
				}
			})
		}
		work.Wait()
	}
	first.clock.Advance(blob.OrphanAge)
	for _, f := range both {
		testenv.OK(t, f.FreeGarbage(ctx))
		if found, err := f.SweepOrphans(ctx); err != nil || found.Orphans != 0 {
			t.Errorf("at the end: %+v, %v, want no orphan", found, err)
		}
	}
	if n := first.objects(t); n > 1+2*writers {
		t.Errorf("%d objects, want the instance id and at most two of each name", n)
	}
}

// rewrite replaces a blob through one service, by a Put or by parts, and reads it through the
// other.
func rewrite(ctx context.Context, services []*fixture, name string, random *rand.Rand) error {
	at := random.IntN(2)
	writes, reads := services[at], services[1-at]
	body := randomBytes(random.Uint64(), 1+random.IntN(3<<19))
	if random.IntN(2) == 0 {
		if _, err := writes.Put(ctx, to(name), bytes.NewReader(body), int64(len(body))); err != nil {
			return err
		}
	} else if err := rewriteByParts(ctx, services, name, body); err != nil {
		return err
	}
	c, err := reads.Open(ctx, "a", name)
	if err != nil {
		return err
	}
	defer c.Close()
	var got bytes.Buffer
	if _, err := c.WriteRange(ctx, &got, 0, int64(len(body))); err != nil {
		return err
	}
	if !bytes.Equal(got.Bytes(), body) {
		return fmt.Errorf("%s: %d bytes of another content than was written", name, got.Len())
	}
	return nil
}

// rewriteByParts sends an upload's parts to the services alternately.
func rewriteByParts(ctx context.Context, services []*fixture, name string, body []byte) error {
	const partSize = 1 << 20
	u, err := services[0].Begin(ctx, blob.BeginOptions{Account: "a", Name: name, PartSize: partSize})
	if err != nil {
		return err
	}
	for i := 0; i*partSize < len(body); i++ {
		part := body[i*partSize : min(len(body), (i+1)*partSize)]
		if _, err := services[i%2].PutPart(ctx, blob.PartOptions{UploadID: u.ID, Index: i}, bytes.NewReader(part), int64(len(part))); err != nil {
			return err
		}
	}
	_, err = services[1].Complete(ctx, u.ID, blob.Totals{}, nil)
	return err
}
