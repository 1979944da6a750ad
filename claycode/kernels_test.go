package claycode

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/reedsolomon"
	"sluice/test/testenv"
)

// kernels are the instructions with which the arithmetic may be done.
var kernels = map[string][]reedsolomon.Option{
	"the machine's": nil,
	"portable":      {reedsolomon.WithGFNI(false), reedsolomon.WithAVXGFNI(false), reedsolomon.WithAVX512(false), reedsolomon.WithAVX2(false), reedsolomon.WithSSSE3(false), reedsolomon.WithSSE2(false), reedsolomon.WithNEON(false), reedsolomon.WithSVE(false)},
	"AVX2":          {reedsolomon.WithGFNI(false), reedsolomon.WithAVXGFNI(false), reedsolomon.WithAVX512(false)},
	"SSSE3":         {reedsolomon.WithGFNI(false), reedsolomon.WithAVXGFNI(false), reedsolomon.WithAVX512(false), reedsolomon.WithAVX2(false)},
}

// networkChunks returns random chunks for the network's code, without parity.
func networkChunks(size int) [][]byte {
	rng := rand.NewChaCha8([32]byte{1})
	chunks := make([][]byte, 16)
	for i := range chunks {
		chunks[i] = make([]byte, size)
		_, _ = rng.Read(chunks[i]) // Read returns no error
	}
	return chunks
}

// TestKernelsAgree encodes with each set of instructions, and compares the chunks. Planes have one
// strip or several, and lengths that are multiples of a vector's or not.
func TestKernelsAgree(t *testing.T) {
	for _, plane := range []int{64 + 31, 128, stripMost + 256, 2*stripMost + 17} {
		want := networkChunks(256 * plane)
		code := testenv.Must(newCode(16, 10, 13, kernels["portable"]...))(t)
		testenv.OK(t, code.Encode(want))
		for name, options := range kernels {
			if runtime.GOARCH != "amd64" && name != "the machine's" {
				continue
			}
			checkKernels(t, fmt.Sprintf("%s with planes of %d bytes", name, plane), want, options)
		}
	}
}

// checkKernels encodes and decodes chunks, and compares them with those that are wanted.
func checkKernels(t *testing.T, name string, want [][]byte, options []reedsolomon.Option) {
	t.Helper()
	code := testenv.Must(newCode(16, 10, 13, options...))(t)
	got := networkChunks(len(want[0]))
	testenv.OK(t, code.Encode(got))
	for _, lost := range [][]int{nil, {3}, {15, 4}, {0, 5, 6, 10}, {0, 5, 6, 10, 11, 15}} {
		for _, i := range lost {
			clear(got[i])
		}
		testenv.OK(t, code.Decode(got, lost...))
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("%s: chunk %d differs after the loss of %v", name, i, lost)
			}
		}
	}
}

// TestWorkAllocatesNothing checks that a call's allocations do not grow with the chunks. Under the
// race detector, which empties pools, they do.
func TestWorkAllocatesNothing(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	code := testenv.Must(New(16, 10, 13))(t)
	for _, size := range []int{16 << 10, 1 << 20} {
		chunks := networkChunks(size)
		if n := testing.AllocsPerRun(5, func() { testenv.OK(t, code.Encode(chunks)) }); n > 6 && !testenv.Race {
			t.Errorf("an encoding of chunks of %d bytes allocates %v times", size, n)
		}
	}
}

// TestRunUsesAllProcessors checks that large work is shared: the result does not depend on how many
// goroutines there are.
func TestRunUsesAllProcessors(t *testing.T) {
	code := testenv.Must(New(16, 10, 13))(t)
	want := networkChunks(1 << 20)
	testenv.OK(t, code.Encode(want))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	got := networkChunks(1 << 20)
	testenv.OK(t, code.Encode(got))
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("chunk %d differs", i)
		}
	}
}

// BenchmarkChunkset measures a chunkset of 10 MiB of data, in bytes of data, beside the
// Reed-Solomon code with the same rate. A repair counts the chunk's bytes.
func BenchmarkChunkset(b *testing.B) {
	const size = 1 << 20
	chunks := networkChunks(size)
	code := testenv.Must(New(16, 10, 13))(b)
	solomon := testenv.Must(reedsolomon.New(10, 6, reedsolomon.WithMaxGoroutines(1)))(b)
	measure := func(name string, bytes int64, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(bytes)
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	measure("encode", 10*size, func() error { return code.Encode(chunks) })
	for _, lost := range [][]int{{3}, {0, 1, 2, 3, 4, 5}, {0, 4, 8, 12, 13, 14}} {
		measure(fmt.Sprintf("decode without %v", lost), 10*size, func() error { return code.Decode(chunks, lost...) })
	}
	helpers := make([][]byte, 16)
	for i := range 13 {
		if i != 3 {
			helpers[i] = chunks[i][:size/4]
		}
	}
	helpers[13] = chunks[13][:size/4]
	restored := make([]byte, size)
	measure("repair", size, func() error { return code.Repair(3, helpers, restored) })
	measure("reed-solomon encode", 10*size, func() error { return solomon.Encode(chunks) })
	measure("reed-solomon decode", 10*size, func() error {
		lost := append([][]byte{}, chunks...)
		for _, i := range []int{0, 1, 2, 3, 4, 5} {
			lost[i] = lost[i][:0]
		}
		return solomon.Reconstruct(lost)
	})
}
