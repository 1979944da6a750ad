package main

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// TestHold: who holds an instance waits for a node that died, is refused by one
// that lives, and learns when another one has taken over.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, passed := &clockLeases{mu: make(chan struct{}, 1)}, sinceNow()
		node := func(ttl time.Duration) bool {
			got, err := leases.Lease(t.Context(), backgroundLease, "node", ttl)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		node(leaseTime) // and then it died
		held, release, err := hold(t.Context(), passed, leases, holdPatience)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * leaseTime)
		if node(leaseTime) || held.Err() != nil {
			t.Fatal("the lease was not kept")
		}
		if _, _, err := hold(t.Context(), passed, leases, holdPatience); !errors.Is(err, errServed) {
			t.Errorf("a second one: %v", err)
		}
		if err := release(); err != nil || !node(leaseTime) {
			t.Errorf("the lease was not given back: %v", err)
		}
		node(0)

		held, release, err = hold(t.Context(), passed, leases, 0)
		if err != nil {
			t.Fatal(err)
		}
		leases.away.Store(true)
		time.Sleep(leaseTime)
		if !errors.Is(context.Cause(held), errTaken) {
			t.Errorf("with the engine away for too long the work goes on: %v", context.Cause(held))
		}
		leases.away.Store(false)
		if err := release(); err != nil {
			t.Error(err)
		}

		held, release, err = hold(t.Context(), passed, leases, 0)
		if err != nil {
			t.Fatal(err)
		}
		leases.mu <- struct{}{}
		leases.holder = "node"
		<-leases.mu
		time.Sleep(leaseTime)
		if !errors.Is(context.Cause(held), errTaken) {
			t.Errorf("with the lease lost the work goes on: %v", context.Cause(held))
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	})
}

// TestHoldAfterASleep: the machine of a migration slept for longer than its lease,
// and a node worked meanwhile and ended. The lease can be had again, and the
// migration must end all the same.
func TestHoldAfterASleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, awake := &clockLeases{mu: make(chan struct{}, 1)}, sinceNow()
		var slept atomic.Int64
		passed := func() time.Duration { return awake() + time.Duration(slept.Load()) }
		held, release, err := hold(t.Context(), passed, leases, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		slept.Store(int64(leaseTime))
		time.Sleep(leaseTime / 2)
		if !errors.Is(context.Cause(held), errTaken) {
			t.Errorf("after a sleep the work goes on: %v", context.Cause(held))
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	})
}

// TestHoldSeesNodesThatStandBy: the node that leads has ended, and another one
// still runs.
func TestHoldSeesNodesThatStandBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, passed := &clockLeases{mu: make(chan struct{}, 1)}, sinceNow()
		idle := func(ctx context.Context) { <-ctx.Done() }
		leading, end := context.WithCancel(t.Context())
		go lead(leading, passed, leases, backgroundLease, func(string, error) {}, idle)
		synctest.Wait()
		standing, stop := context.WithCancel(t.Context())
		defer stop()
		go lead(standing, passed, leases, backgroundLease, func(string, error) {}, idle)
		time.Sleep(leaseTime)
		end()
		synctest.Wait()
		if _, _, err := hold(t.Context(), passed, leases, holdPatience); !errors.Is(err, errServed) {
			t.Errorf("beside a node that runs: %v", err)
		}
	})
}

// TestCheckedReader flips each of some bits, and cuts and prolongs the source.
func TestCheckedReader(t *testing.T) {
	for _, size := range []int{1, 1000, blockSize - 1, blockSize, blockSize + 1, 2 * blockSize} {
		data := bytes.Repeat([]byte("sluice!"), size/7+1)[:size]
		var sums []uint32
		for rest := data; len(rest) > 0; rest = rest[min(len(rest), blockSize):] {
			sums = append(sums, crc32.Checksum(rest[:min(len(rest), blockSize)], castagnoli))
		}
		read := func(source []byte, slow bool, sums []uint32) ([]byte, error) {
			var src io.Reader = bytes.NewReader(source)
			if slow {
				src = iotest.DataErrReader(iotest.HalfReader(src))
			}
			return io.ReadAll(&checked{src: src, left: int64(size), blocks: sums})
		}
		for _, slow := range []bool{false, true} {
			for name, source := range map[string][]byte{"whole": data, "longer": append(bytes.Clone(data), 1)} {
				if got, err := read(source, slow, sums); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d bytes, %s: %d bytes, %v", size, name, len(got), err)
				}
			}
			for _, at := range []int{0, size / 2, size - 1} {
				flipped := bytes.Clone(data)
				flipped[at] ^= 0x10
				if got, err := read(flipped, slow, sums); !errors.Is(err, errDamaged) || len(got) >= size {
					t.Errorf("%d bytes with a flip at %d: %d bytes, %v", size, at, len(got), err)
				}
			}
			if _, err := read(data[:size-1], slow, sums); !errors.Is(err, errDamaged) {
				t.Errorf("%d bytes, cut: %v", size, err)
			}
			if _, err := read(data, slow, sums[1:]); !errors.Is(err, errDamaged) {
				t.Errorf("%d bytes, a checksum too few: %v", size, err)
			}
		}
	}
}

func TestProgressLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := newProgress(&out, false)
		p.begin("bytes", 100, "bytes")
		p.add(10)
		p.add(10)
		time.Sleep(progressEvery)
		p.add(40)
		p.add(1)
		p.line(&out, "complaint")
		p.add(50)
		p.end()
		want := "bytes: 0 of 100 bytes\nbytes: 60 of 100 bytes\nsluice: complaint\nbytes: 100 of 100 bytes\n"
		if out.String() != want {
			t.Errorf("told is %q, want %q", out.String(), want)
		}
	})
}

func TestProgressOnATerminal(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, false)
	p.bars = true
	p.begin("metadata", 0, "rows")
	p.add(5)
	p.end()
	p.begin("bytes", 10, "bytes")
	p.add(20)
	p.line(&out, "complaint")
	p.end()
	if !strings.Contains(out.String(), "metadata 100%") || !strings.Contains(out.String(), "sluice: complaint\n") || !strings.HasSuffix(out.String(), "\n") {
		t.Errorf("told is %q", out.String())
	}
	quiet := newProgress(&out, true)
	before := out.Len()
	quiet.begin("bytes", 10, "bytes")
	quiet.add(10)
	quiet.end()
	if out.Len() != before {
		t.Errorf("a quiet one told something: %q", out.String()[before:])
	}
}
