package integrity

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"sluice/metastore"
	"sluice/test/testenv"
)

// TestCheckObject reads sources with a flipped bit, too short, and too long.
func TestCheckObject(t *testing.T) {
	for _, size := range []int{1, 1000, BlockSize - 1, BlockSize, BlockSize + 1, 2 * BlockSize} {
		data := bytes.Repeat([]byte("sluice!"), size/7+1)[:size]
		var sums []uint32
		for rest := data; len(rest) > 0; rest = rest[min(len(rest), BlockSize):] {
			sums = append(sums, Sum(rest[:min(len(rest), BlockSize)]))
		}
		read := func(source []byte, slow bool, sums []uint32) ([]byte, error) {
			var src io.Reader = bytes.NewReader(source)
			if slow {
				src = iotest.DataErrReader(iotest.HalfReader(src))
			}
			return io.ReadAll(CheckObject(src, metastore.Extent{Size: int64(size), Blocks: sums}))
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
				if got, err := read(flipped, slow, sums); !errors.Is(err, ErrCorrupt) || len(got) >= size {
					t.Errorf("%d bytes with a flip at %d: %d bytes, %v", size, at, len(got), err)
				}
			}
			testenv.Is(t, testenv.Error(read(data[:size-1], slow, sums)), ErrCorrupt, "%d bytes, cut", size)
			testenv.Is(t, testenv.Error(read(data, slow, sums[1:])), ErrCorrupt, "%d bytes, a checksum too few", size)
		}
	}
}

// TestCheckExtent checks that an extent must have one checksum for each of at most 64 blocks.
func TestCheckExtent(t *testing.T) {
	for _, c := range []struct {
		size   int64
		blocks int
		want   bool
	}{
		{1, 1, true},
		{1, 0, false},
		{1, 2, false},
		{BlockSize, 1, true},
		{BlockSize + 1, 1, false},
		{BlockSize + 1, 2, true},
		{MaxBlocks * BlockSize, MaxBlocks, true},
		{MaxBlocks*BlockSize + 1, MaxBlocks + 1, false},
	} {
		if err := CheckExtent(&metastore.Extent{Size: c.size, Blocks: make([]uint32, c.blocks)}); (err == nil) != c.want {
			t.Errorf("%d bytes with %d checksums: %v", c.size, c.blocks, err)
		}
	}
}
