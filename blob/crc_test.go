package blob

import (
	"math/rand/v2"
	"testing"

	"github.com/minio/crc64nvme"
)

func TestCombineEqualsChecksumOfWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	whole := make([]byte, 1<<16)
	for i := range whole {
		whole[i] = byte(rng.Uint32())
	}
	want := crc64nvme.Checksum(whole)
	for range 500 {
		var c crcCombiner
		var got uint64
		for rest := whole; len(rest) > 0; {
			n := 1 + rng.IntN(min(len(rest), 1+rng.IntN(9000)))
			got = c.combine(got, crc64nvme.Checksum(rest[:n]), int64(n))
			rest = rest[n:]
		}
		if got != want {
			t.Fatalf("combined %016x, whole %016x", got, want)
		}
	}
}

func TestCombineLongZeroRun(t *testing.T) {
	head, tail := []byte("some head"), make([]byte, 64<<20)
	var c crcCombiner
	got := c.combine(crc64nvme.Checksum(head), crc64nvme.Checksum(tail), int64(len(tail)))
	if want := crc64nvme.Checksum(append(head, tail...)); got != want {
		t.Fatalf("combined %016x, whole %016x", got, want)
	}
}

func BenchmarkCombine10000Parts(b *testing.B) {
	for b.Loop() {
		var c crcCombiner
		var crc uint64
		for i := range 10_000 {
			crc = c.combine(crc, uint64(i)*0x9e3779b97f4a7c15, 5<<20)
		}
	}
}
