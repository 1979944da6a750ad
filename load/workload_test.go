package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/client"
	"sluice/test/testenv"
)

func TestMixesAndSizes(t *testing.T) {
	for _, text := range []string{"", "get", "get=0", "get=-1", "get=1,get=1", "read=1", "get=1,", "get=1000001", "get=x"} {
		if m, err := ParseMix(text); err == nil {
			t.Errorf("%q was parsed as %v", text, m)
		}
	}
	m, err := ParseMix("get=75,put=25")
	if err != nil || m[Get] != 75 || m[Put] != 25 {
		t.Fatalf("%v, %v", m, err)
	}
	var s Sizes
	for _, text := range []string{"", "x", "-1", "6TiB", "4KiB=", "4KiB=0", "4KiB=1,", "4KiB=x"} {
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was parsed as %v", text, s)
		}
	}
	testenv.OK(t, s.UnmarshalText([]byte("4KiB=90,1MiB=10")))
	const n = 100_000
	gets, large, blobs := 0, 0, map[uint64]bool{}
	for i := range int64(n) {
		if m.kind(i) == Get {
			gets++
		}
		if s.size(i) == 1<<20 {
			large++
		}
		blobs[mix(i, saltBlob)%1000] = true
	}
	if math.Abs(float64(gets)/n-0.75) > 0.01 || math.Abs(float64(large)/n-0.1) > 0.01 || len(blobs) != 1000 {
		t.Errorf("%d gets, %d large blobs, %d different ones of %d", gets, large, len(blobs), n)
	}
}

func TestContents(t *testing.T) {
	for _, c := range []Content{{0, 1}, {1, 2}, {noiseSize, 3}, {3*noiseSize + 1, math.MaxInt64}} {
		whole, err := io.ReadAll(c.reader())
		if err != nil || int64(len(whole)) != c.Size {
			t.Fatalf("%+v: %d bytes, %v", c, len(whole), err)
		}
		for offset := int64(0); offset < c.Size; offset += 99_991 {
			if b := c.Piece(offset, 100); len(b) == 0 || string(b) != string(whole[offset:offset+int64(len(b))]) {
				t.Errorf("%+v differs at %d", c, offset)
			}
		}
	}
}

// TestSessionsAreReplaced uses sessions of ten chunksets concurrently: none is used more often.
func TestSessionsAreReplaced(t *testing.T) {
	const each, sessions, uses = 10, 3, 10_000
	var created atomic.Int64
	p := &pool{slots: make([]slot, sessions), spares: make(chan *counted, spareSessions), failed: make(chan error, 1)}
	ctx, stop := context.WithCancel(t.Context())
	p.stop = stop
	p.create = func(context.Context) (client.Session, error) {
		return client.Session{ID: fmt.Sprint(created.Add(1)), ChunksetsLeft: each}, nil
	}
	p.ended.Go(func() { p.supply(ctx) })
	testenv.OK(t, p.fill(ctx))
	var mu sync.Mutex
	used := map[string]int{}
	var group sync.WaitGroup
	for g := range int64(8) {
		group.Go(func() {
			for i := range int64(uses / 8) {
				path, err := p.take(ctx, mix(g*uses+i, saltBlob))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				used[path]++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if n := p.close(); int64(n) != created.Load() || n < uses/each {
		t.Errorf("%d sessions are reported, %d were created", n, created.Load())
	}
	for path, n := range used {
		if n > each {
			t.Errorf("%s was used %d times", path, n)
		}
	}
}

func TestSessionsThatCannotBeCreated(t *testing.T) {
	refused := errors.New("refused")
	p := &pool{slots: make([]slot, 2), spares: make(chan *counted), failed: make(chan error, 1), stop: func() {}}
	p.create = func(context.Context) (client.Session, error) { return client.Session{}, refused }
	p.ended.Go(func() { p.supply(t.Context()) })
	for range 2 {
		if err := p.fill(t.Context()); !errors.Is(err, refused) {
			t.Errorf("%v, want that it is refused", err)
		}
	}
	if n := p.close(); n != 0 {
		t.Errorf("%d sessions were created", n)
	}
}
