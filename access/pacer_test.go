package access_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/test/testenv"
)

// paced returns an Allowance with this rate of bytes per second out, and twice as many in.
func paced(bytesPerSecond int64) *access.Allowance {
	return allowance(keys.Limits{BytesOutPerSecond: bytesPerSecond, BytesInPerSecond: 2 * bytesPerSecond})
}

// meter counts bytes over time.
type meter struct {
	sync.Mutex
	start  time.Time
	slots  []float64 // bytes in each 100 ms
	stream map[int]float64
}

func newMeter() *meter { return &meter{start: time.Now(), stream: map[int]float64{}} }

func (m *meter) count(stream, n int) {
	m.Lock()
	defer m.Unlock()
	slot := int(time.Since(m.start) / (100 * time.Millisecond))
	for len(m.slots) <= slot {
		m.slots = append(m.slots, 0)
	}
	m.slots[slot] += float64(n)
	m.stream[stream] += float64(n)
}

// flow sends chunks until the context ends.
func (m *meter) flow(ctx context.Context, a *access.Allowance, stream int) {
	for ctx.Err() == nil {
		n := int(a.ChunkOut())
		if a.PaceOut(ctx, n) == nil {
			m.count(stream, n)
		}
	}
}

// check fails the test unless any 3 s among the first seconds saw the rate, within a tenth.
func (m *meter) check(t *testing.T, bytesPerSecond int64, seconds int) {
	t.Helper()
	m.Lock()
	defer m.Unlock()
	for from := 0; from+30 <= 10*seconds; from++ {
		var sum float64
		for _, n := range m.slots[min(from, len(m.slots)):min(from+30, len(m.slots))] {
			sum += n
		}
		if !within(sum/3, float64(bytesPerSecond), 0.1) {
			t.Errorf("from %d00 ms on, %.0f bytes per second passed in 3 s, want %d", from, sum/3, bytesPerSecond)
			return
		}
	}
}

// TestPace checks that a group's streams together achieve the rate, in equal shares.
// Invariant 38.
func TestPace(t *testing.T) {
	const seconds = 6
	for _, bytesPerSecond := range []int64{1 << 10, 64 << 10, 32 << 20, 512 << 20} {
		for _, streams := range []int{1, 8, 64} {
			t.Run(fmt.Sprintf("%d B per s, %d streams", bytesPerSecond, streams), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a, m := paced(bytesPerSecond), newMeter()
					ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
					defer cancel()
					var wg sync.WaitGroup
					for i := range streams {
						wg.Go(func() { m.flow(ctx, a, i) })
					}
					wg.Wait()
					m.check(t, bytesPerSecond, seconds)
					shares := make([]float64, streams)
					for i := range shares {
						shares[i] = m.stream[i]
					}
					// The streams take turns, so none is ahead by more than a chunk and the tokens
					// that the bucket had before all had started.
					ahead, most := slices.Max(shares)-slices.Min(shares), bytesPerSecond/10+a.ChunkOut()
					if ahead > float64(most) {
						t.Errorf("the shares differ by %.0f bytes, more than %d", ahead, most)
					}
				})
			})
		}
	}
}

// TestPaceWhileStreamsStartAndEnd checks that the other streams use an ended stream's share.
func TestPaceWhileStreamsStartAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bytesPerSecond, seconds = 32 << 20, 12
		a, m := paced(bytesPerSecond), newMeter()
		whole, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				for round := range 5 { // active for i*10 ms, then inactive for the same time
					life := time.Duration(1+i) * 10 * time.Millisecond
					ctx, cancel := context.WithTimeout(whole, life)
					m.flow(ctx, a, i)
					cancel()
					time.Sleep(life * time.Duration(round%2))
				}
			})
		}
		wg.Go(func() { m.flow(whole, a, 64) })
		wg.Wait()
		m.check(t, bytesPerSecond, seconds)
	})
}

// TestPaceWhileStreamsAreCancelled checks that a cancelled waiter consumes nothing, whether it is
// first in the queue or not.
// Invariant 38.
func TestPaceWhileStreamsAreCancelled(t *testing.T) {
	for _, bytesPerSecond := range []int64{64 << 10, 32 << 20, 512 << 20} {
		synctest.Test(t, func(t *testing.T) {
			const seconds = 6
			a, m := paced(bytesPerSecond), newMeter()
			whole, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
			defer cancel()
			turn := time.Duration(float64(time.Second) * float64(a.ChunkOut()) / float64(bytesPerSecond))
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() { m.flow(whole, a, i) })
				wg.Go(func() { // waits for some of the necessary time, repeatedly
					for whole.Err() == nil {
						ctx, cancel := context.WithTimeout(whole, turn*time.Duration(1+2*i)/3)
						if err := a.PaceOut(ctx, int(a.ChunkOut())); err == nil {
							m.count(100, int(a.ChunkOut()))
						}
						cancel()
						if ctx.Err() == nil {
							time.Sleep(turn / 7)
						}
					}
				})
			}
			wg.Wait()
			m.check(t, bytesPerSecond, seconds)
			if m.stream[100] > float64(seconds*bytesPerSecond)/2 {
				t.Error("hardly any wait was cancelled")
			}
		})
	}
}

// TestDirectionsArePacedApart checks that the directions have independent rates.
func TestDirectionsArePacedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := paced(64 << 10)
		var wg sync.WaitGroup
		for _, c := range []struct {
			pace  func(context.Context, int) error
			bytes int
		}{{a.PaceOut, 10 * 64 << 10}, {a.PaceIn, 10 * 128 << 10}} {
			wg.Go(func() {
				start := time.Now()
				testenv.Check(t, c.pace(t.Context(), c.bytes))
				if took := since(start); !within(took, 10, 0.1) {
					t.Errorf("%d bytes took %v s", c.bytes, took)
				}
			})
		}
		wg.Wait()
	})
}

// TestChunks checks that chunks are small enough for the rate, and never empty.
func TestChunks(t *testing.T) {
	for bytesPerSecond, want := range map[int64]int64{
		1: 1, 9: 1, 20: 2, 1 << 10: 102, 64 << 10: 6553, 32 << 20: 1 << 20, 1 << 62: 1 << 20, keys.Unlimited: 1 << 20,
	} {
		a := allowance(keys.Limits{BytesOutPerSecond: bytesPerSecond, BytesInPerSecond: bytesPerSecond})
		if a.ChunkOut() != want || a.ChunkIn() != want {
			t.Errorf("%d B per s: chunks of %d and %d, want %d", bytesPerSecond, a.ChunkOut(), a.ChunkIn(), want)
		}
	}
}

// TestUnlimitedPaceTakesNoTime checks that without a rate nothing waits, even with a cancelled
// context.
func TestUnlimitedPaceTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := allowance(keys.Limits{})
		start := time.Now()
		for range 1000 {
			testenv.OK(t, errors.Join(a.PaceIn(t.Context(), 1<<30), a.PaceOut(t.Context(), 1<<30)))
		}
		testenv.Equal(t, since(start), 0, "the seconds that it took")
	})
}
