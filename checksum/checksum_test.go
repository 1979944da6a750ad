package checksum_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/minio/crc64nvme"

	"sluice/checksum"
)

func TestCombineEqualsChecksumOfWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	whole := make([]byte, 1<<16)
	for i := range whole {
		whole[i] = byte(rng.Uint32())
	}
	want := crc64nvme.Checksum(whole)
	for range 500 {
		var c checksum.Combiner
		var got uint64
		for rest := whole; len(rest) > 0; {
			n := 1 + rng.IntN(min(len(rest), 1+rng.IntN(9000)))
			got = c.Combine(got, crc64nvme.Checksum(rest[:n]), int64(n))
			rest = rest[n:]
		}
		if got != want {
			t.Fatalf("combined %016x, whole %016x", got, want)
		}
	}
}

func TestCombineLongZeroRun(t *testing.T) {
	head, tail := []byte("some head"), make([]byte, 64<<20)
	var c checksum.Combiner
	got := c.Combine(crc64nvme.Checksum(head), crc64nvme.Checksum(tail), int64(len(tail)))
	if want := crc64nvme.Checksum(append(head, tail...)); got != want {
		t.Fatalf("combined %016x, whole %016x", got, want)
	}
}

func BenchmarkCombine10000Parts(b *testing.B) {
	for b.Loop() {
		var c checksum.Combiner
		var crc uint64
		for i := range 10_000 {
			crc = c.Combine(crc, uint64(i)*0x9e3779b97f4a7c15, 5<<20)
		}
	}
}

// FuzzParseETag checks that ParseETag accepts exactly ETag's results, with or without quotes.
func FuzzParseETag(f *testing.F) {
	for _, s := range []string{checksum.ETag(5, 0x3377857006524257), `5-3377857006524257`, `"-1-0"`, `"05-3377857006524257"`, `"5-3377857006524257`, `W/"5-3377857006524257"`, ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		size, crc, ok := checksum.ParseETag(s)
		if !ok {
			return
		}
		if want := checksum.ETag(size, crc); strings.Trim(s, `"`) != strings.Trim(want, `"`) {
			t.Errorf("%q was parsed as %s", s, want)
		}
	})
}

func TestParseETag(t *testing.T) {
	for _, s := range []string{"", `"-1-0000000000000000"`, `"5-0x00000000000000"`, `"+5-3377857006524257"`, `W/"5-3377857006524257"`, `"5-337785700652425"`, `"5-3377857006524257-1"`} {
		if _, _, ok := checksum.ParseETag(s); ok {
			t.Errorf("%q was accepted", s)
		}
	}
	for _, s := range []string{`"5-3377857006524257"`, "5-3377857006524257"} {
		if size, crc, ok := checksum.ParseETag(s); !ok || size != 5 || crc != 0x3377857006524257 {
			t.Errorf("%q: %d, %x, %v", s, size, crc, ok)
		}
	}
}

func ExampleCombiner() {
	hello, world := []byte("hello, "), []byte("world")
	var c checksum.Combiner
	crc := c.Combine(checksum.Update(0, hello), checksum.Update(0, world), int64(len(world)))
	fmt.Println(checksum.ETag(12, crc) == checksum.ETag(12, checksum.Update(0, []byte("hello, world"))))
	// Output: true
}
