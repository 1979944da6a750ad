package commit_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"sluice/commit"
	"sluice/test/testenv"
)

// slowTree returns the root over nodes, as the documentation describes it.
func slowTree(nodes []commit.Root) commit.Root {
	if len(nodes) == 1 {
		return nodes[0]
	}
	if len(nodes)%2 == 1 {
		nodes = append(slices.Clone(nodes), commit.Root{})
	}
	var above []commit.Root
	for pair := range slices.Chunk(nodes, 2) {
		above = append(above, sha256.Sum256(slices.Concat(pair[0][:], pair[1][:])))
	}
	return slowTree(above)
}

// manyChunksets returns a blob with so many chunksets: one that is real, and random roots.
func manyChunksets(rng *rand.ChaCha8, filled commit.Chunkset, at, count int) commit.Commitment {
	sets := make([]commit.Chunkset, count)
	for i := range sets {
		for j := range sets[i].Chunks {
			_, _ = rng.Read(sets[i].Chunks[j][:]) // it returns no error
		}
		sets[i].Root = slowTree(sets[i].Chunks[:])
	}
	sets[at] = filled
	return commit.NewCommitment(int64(count)*commit.ChunksetSize, sets)
}

// at is a reader of data that begins at an offset.
type at struct {
	data []byte
	off  int64
}

func (a at) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(a.data).ReadAt(p, off-a.off)
}

// counts are around the numbers of chunksets at which a level has one row more.
var counts = []int{1, 2, 3, 63, 64, 65, 127, 128, 129, 191, 4095, 4096, 4097, 4161}

// TestRows proves ranges of blobs with many chunksets, by their stored rows.
// Invariant 222.
func TestRows(t *testing.T) {
	data := random(commit.ChunksetSize)
	filled := of(data).Chunksets[0]
	rng := rand.NewChaCha8([32]byte{1})
	for _, count := range counts {
		for _, set := range []int{0, count / 2, count - 1} {
			c := manyChunksets(rng, filled, set, count)
			tree := testenv.Must(c.Tree())(t)
			testenv.Equal(t, tree.Root, c.Root, "root of %d chunksets", count)
			start := int64(set) * commit.ChunksetSize
			for _, r := range [][2]int64{{0, 10}, {3<<20 + 5, 5<<20 - 7}, {0, commit.ChunksetSize}} {
				var out bytes.Buffer
				testenv.OK(t, writeRange(c, &out, at{data, start}, start+r[0], start+r[1]))
				got, _, err := read(out.Bytes(), c.Root, c.Size, start+r[0], start+r[1])
				if err != nil || !bytes.Equal(got, data[r[0]:r[1]]) {
					t.Errorf("bytes %v of chunkset %d of %d: %v", r, set, count, err)
				}
			}
		}
	}
}

// TestDamagedRows damages each stored row, and cuts it: no proof is made with it, and no error is
// missing.
func TestDamagedRows(t *testing.T) {
	data := random(commit.ChunksetSize)
	c := manyChunksets(rand.NewChaCha8([32]byte{2}), of(data).Chunksets[0], 100, 4097)
	tree := testenv.Must(c.Tree())(t)
	load, start := tree.Load, int64(100)*commit.ChunksetSize
	used := map[string]bool{}
	for level := range 3 {
		for name, damage := range map[string]func([]byte) []byte{
			"a flipped bit": func(h []byte) []byte { h[len(h)/2] ^= 1; return h },
			"a hash less":   func(h []byte) []byte { return h[32:] },
			"none":          func([]byte) []byte { return nil },
		} {
			damaged := commit.Tree{Size: c.Size, Root: c.Root, Load: func(l int, i int64) ([]byte, error) {
				hashes, err := load(l, i)
				if hashes = slices.Clone(hashes); l == level {
					used[fmt.Sprint(level)] = true
					hashes = damage(hashes)
				}
				return hashes, err
			}}
			testenv.Is(t, testenv.Error(damaged.Prove(io.Discard, start, start+10)), commit.ErrRows, "level %d: %s", level, name)
		}
	}
	testenv.Equal(t, len(used), 3, "levels that were damaged")
	failed := commit.Tree{Size: c.Size, Root: c.Root, Load: func(int, int64) ([]byte, error) { return nil, io.ErrClosedPipe }}
	testenv.Is(t, testenv.Error(failed.Prove(io.Discard, start, start+10)), io.ErrClosedPipe, "rows that cannot be read")
	c.Chunksets = c.Chunksets[1:]
	testenv.Is(t, testenv.Error(c.Tree()), commit.ErrRows, "a chunkset less")
}

// TestProverOfOtherBytes gives a Prover bytes that its tree does not have: it writes nothing of a
// chunk that it hashes.
func TestProverOfOtherBytes(t *testing.T) {
	for _, size := range []int{5000, 1 << 20, 3 << 20} {
		data := random(size)
		tree := testenv.Must(pointer(of(data)).Tree())(t)
		for name, other := range map[string]func(){
			"a byte of the blob": func() { data[size-1] ^= 1 },
			"the hash besides":   func() { tree.Beside[3] ^= 1 },
		} {
			if other(); size > commit.SmallSize && name != "a byte of the blob" {
				continue
			}
			var out bytes.Buffer
			p := testenv.Must(tree.Prove(&out, int64(size-10), int64(size-1)))(t)
			off, n := p.Needs()
			testenv.Is(t, testenv.Error(p.Write(data[off:off+n])), commit.ErrRows, "%s of %d", name, size)
			testenv.Equal(t, out.Len(), 0, "bytes written of %d, for %s", size, name)
		}
	}
	data := random(5000)
	p := testenv.Must(testenv.Must(pointer(of(data)).Tree())(t).Prove(io.Discard, 0, 10))(t)
	if _, err := p.Write(append(data, 0)); err == nil {
		t.Error("more bytes than the range needs were taken")
	}
}

// TestWriterAlone computes a root on one processor.
func TestWriterAlone(t *testing.T) {
	data := random(11 << 20)
	w := commit.Writer{Alone: true}
	for range 2 {
		_, _ = w.Write(data) // it returns no error
		testenv.Equal(t, w.Commitment().Root, of(data).Root, "root")
	}
}

func pointer(c commit.Commitment) *commit.Commitment { return &c }
