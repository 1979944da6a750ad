package boottime

import (
	"sync"
	"testing"
	"time"
)

// machine has two clocks that tests set.
type machine struct {
	boot, awake time.Duration
	reads       int // number of readings of boot
	between     func()
}

func (m *machine) clock() *clock {
	return &clock{
		boot: func() time.Duration {
			m.reads++
			boot := m.boot
			if m.between != nil {
				m.between()
			}
			return boot
		},
		awake: func() time.Duration { return m.awake },
	}
}

func (m *machine) pass(d time.Duration) { m.boot += d; m.awake += d }

func TestSleepCountsAfterTheResolution(t *testing.T) {
	m := &machine{boot: time.Hour, awake: time.Second}
	c := m.clock()
	if got := c.now(); got != m.boot {
		t.Fatalf("the clock shows %v, want %v", got, m.boot)
	}
	m.boot += 10 * time.Minute // asleep
	m.pass(resolution - 1)
	if got, want := c.now(), time.Hour+resolution-1; got != want || m.reads != 1 {
		t.Fatalf("within the resolution the clock shows %v after %d measurements, want %v after 1", got, m.reads, want)
	}
	m.pass(1)
	if got := c.now(); got != m.boot || m.reads != 2 {
		t.Fatalf("after the resolution the clock shows %v after %d measurements, want %v after 2", got, m.reads, m.boot)
	}
}

// A goroutine that is descheduled during a measurement must not move the clock.
func TestSlowMeasurementIsNotBelieved(t *testing.T) {
	m := &machine{boot: time.Hour, awake: time.Second}
	c := m.clock()
	c.now()
	m.pass(resolution)
	m.between = func() { m.pass(time.Second) }
	if got := c.now(); got != m.boot {
		t.Fatalf("the clock shows %v, want %v", got, m.boot)
	}
	m.between = nil
	m.pass(resolution)
	if got := c.now(); got != m.boot {
		t.Fatalf("the clock shows %v later, want %v", got, m.boot)
	}
}

// TestNowDoesNotGoBackwardsAmongGoroutines reads the clock concurrently.
func TestNowDoesNotGoBackwardsAmongGoroutines(t *testing.T) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for last, n := Now(), 0; n < 20_000; n++ {
				next := Now()
				if next < last {
					t.Errorf("the clock went from %v to %v", last, next)
				}
				last = next
			}
		})
	}
	wg.Wait()
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
