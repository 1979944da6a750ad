package commit_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"sluice/claycode"
	"sluice/commit"
	"sluice/test/testenv"
)

// vectors are commitments by the public client; testdata/commitments.json describes them.
type vectors struct {
	Merkle []struct {
		Leaves int
		Root   string
	} `json:"merkle_vectors"`
	Vectors []struct {
		Generator     string
		Seed          uint64
		Size          int
		Root          string   `json:"blob_merkle_root"`
		ChunksetRoots []string `json:"chunkset_roots"`
		ChunkRoots    []string `json:"first_chunkset_chunk_roots"`
	}
}

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	testenv.OK(t, json.Unmarshal(testenv.Must(os.ReadFile("testdata/commitments.json"))(t), &v))
	if len(v.Vectors) != 14 || len(v.Merkle) != 17 {
		t.Fatal("the vectors are incomplete")
	}
	return v
}

// generated returns bytes from one of the vectors' generators.
func generated(generator string, seed uint64, size int) []byte {
	data := make([]byte, 0, size+32)
	if generator == "formula" {
		for i := range size {
			data = append(data, byte(uint64(i*31+7*(i>>8))+seed))
		}
		return data
	}
	for j := uint64(0); len(data) < size; j++ {
		block := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, seed), j)
		sum := sha256.Sum256(block)
		data = append(data, sum[:]...)
	}
	return data[:size]
}

// random returns bytes that are the same in each run.
func random(size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{5}).Read(data) // it returns no error
	return data
}

// of returns a blob's roots.
func of(data []byte) commit.Commitment {
	var w commit.Writer
	_, _ = w.Write(data) // it returns no error
	return w.Commitment()
}

// TestVectors checks roots against the public client's.
// Invariant 221.
func TestVectors(t *testing.T) {
	for _, v := range readVectors(t).Vectors {
		c := of(generated(v.Generator, v.Seed, v.Size))
		name := fmt.Sprintf("%s with seed %d, %d bytes", v.Generator, v.Seed, v.Size)
		testenv.Equal(t, c.Root.String(), v.Root, "%s", name)
		testenv.Equal(t, c.Size, int64(v.Size), "size of %s", name)
		var sets, chunks []string
		for _, s := range c.Chunksets {
			sets = append(sets, s.Root.String())
		}
		for _, chunk := range c.Chunksets[0].Chunks {
			chunks = append(chunks, chunk.String())
		}
		if !slices.Equal(sets, v.ChunksetRoots) || !slices.Equal(chunks, v.ChunkRoots) {
			t.Errorf("%s: the roots of chunksets or chunks differ", name)
		}
	}
}

// TestTreeVectors checks trees over 1 to 17 leaves.
func TestTreeVectors(t *testing.T) {
	for _, v := range readVectors(t).Merkle {
		chunksets := make([]commit.Chunkset, v.Leaves)
		for i := range chunksets {
			chunksets[i].Root = sha256.Sum256([]byte{byte(i)})
		}
		testenv.Equal(t, commit.NewCommitment(0, chunksets).Root.String(), v.Root, "root of %d leaves", v.Leaves)
	}
}

// sizes are around the borders of samples, planes, chunks and chunksets.
var sizes = []int{0, 1, 1023, 1024, 1025, 4095, 4096, 4097, 1<<20 - 1, 1 << 20, 1<<20 + 1, 9 << 20, 10<<20 - 1, 10 << 20, 10<<20 + 1, 11<<20 + 1, 30<<20 + 7}

// slowRoot computes a root as the documentation describes it, with the whole blob in memory.
func slowRoot(t *testing.T, data []byte) commit.Root {
	t.Helper()
	code := testenv.Must(claycode.New(16, 10, 13))(t)
	var tree func(nodes []commit.Root) commit.Root
	tree = func(nodes []commit.Root) commit.Root {
		if len(nodes) == 1 {
			return nodes[0]
		}
		if len(nodes)%2 == 1 {
			nodes = append(nodes, commit.Root{})
		}
		var above []commit.Root
		for pair := range slices.Chunk(nodes, 2) {
			above = append(above, sha256.Sum256(slices.Concat(pair[0][:], pair[1][:])))
		}
		return tree(above)
	}
	var sets []commit.Root
	for first := true; first || len(data) > 0; first = false {
		set := make([]byte, 16<<20)
		data = data[copy(set[:10<<20], data):]
		chunks := slices.Collect(slices.Chunk(set, 1<<20))
		testenv.OK(t, code.Encode(chunks))
		var roots []commit.Root
		for _, chunk := range chunks {
			var leaves []commit.Root
			for sample := range slices.Chunk(chunk, 1<<10) {
				leaves = append(leaves, sha256.Sum256(sample))
			}
			roots = append(roots, tree(leaves))
		}
		sets = append(sets, tree(roots))
	}
	return tree(sets)
}

// TestWriter writes blobs of many sizes in pieces, and reads them from a reader that returns few
// bytes: the root does not depend on the pieces.
// Invariant 221.
func TestWriter(t *testing.T) {
	data := random(sizes[len(sizes)-1])
	for _, size := range sizes {
		want := slowRoot(t, data[:size])
		var w commit.Writer
		for piece := range slices.Chunk(data[:size], 1<<20-7) {
			testenv.Equal(t, testenv.Must(w.Write(piece))(t), len(piece), "bytes written")
		}
		testenv.Equal(t, w.Commitment().Root, want, "root of %d bytes written in pieces", size)
		n := testenv.Must(w.ReadFrom(iotest.HalfReader(bytes.NewReader(data[:size]))))(t)
		testenv.Equal(t, n, int64(size), "bytes read")
		c := w.Commitment()
		testenv.Equal(t, c.Root, want, "root of %d bytes read", size)
		testenv.Equal(t, c.Size, int64(size), "size")
	}
}

// TestWriterOfFailedReader checks that a reader's error is returned.
func TestWriterOfFailedReader(t *testing.T) {
	var w commit.Writer
	n, err := w.ReadFrom(io.MultiReader(strings.NewReader("some"), iotest.ErrReader(io.ErrClosedPipe)))
	testenv.Is(t, err, io.ErrClosedPipe, "a failed read")
	testenv.Equal(t, n, 4, "bytes read before")
}

// TestWriterMemory checks that chunksets are hashed in memory that is used again.
func TestWriterMemory(t *testing.T) {
	data := random(10 << 20)
	of(data)
	var w commit.Writer
	allocations := testing.AllocsPerRun(5, func() {
		_, _ = w.Write(data) // it returns no error
	})
	if allocations > 60 && !testenv.Race {
		t.Errorf("a chunkset allocates %v times", allocations)
	}
}

// TestWriterOfASmallBlob checks that small blobs need little memory. A server has many.
func TestWriterOfASmallBlob(t *testing.T) {
	data := random(4096)
	of(data)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const runs = 10
	for range runs {
		of(data)
	}
	runtime.ReadMemStats(&after)
	if used := (after.TotalAlloc - before.TotalAlloc) / runs; used > 100<<10 && !testenv.Race {
		t.Errorf("a blob of %d bytes takes %d bytes of memory", len(data), used)
	}
}

// TestZerosAtTheEnd checks that a root does not depend on zeros at the last chunkset's end.
func TestZerosAtTheEnd(t *testing.T) {
	data := append(random(5000), make([]byte, 6<<20)...)
	if of(data).Root != of(data[:5000]).Root {
		t.Error("zeros at the end change the root")
	}
	if of(data[:4999]).Root == of(data[:5000]).Root {
		t.Error("the last byte does not change the root")
	}
}

// TestParseRoot checks which texts are roots.
func TestParseRoot(t *testing.T) {
	root := of(nil).Root
	testenv.Equal(t, testenv.Must(commit.ParseRoot(root.String()))(t), root, "a root")
	testenv.Equal(t, string(testenv.Must(json.Marshal(root))(t)), `"`+root.String()+`"`, "JSON")
	for _, text := range []string{"", "0x", root.String()[2:], root.String() + "00", root.String()[:64], "0x" + strings.Repeat("zz", 32)} {
		if err := testenv.Error(commit.ParseRoot(text)); err == nil {
			t.Errorf("%q is a root", text)
		}
	}
}

// writeRange writes a range with its proof. The bytes come in pieces.
func writeRange(c commit.Commitment, out io.Writer, blob io.ReaderAt, from, to int64) error {
	tree, err := c.Tree()
	if err != nil {
		return err
	}
	p, err := tree.Prove(out, from, to)
	if err != nil {
		return err
	}
	off, n := p.Needs()
	_, err = io.CopyN(p, io.NewSectionReader(blob, off, n), n)
	return err
}

// proven returns a range with its proof, after a check of its size.
func proven(t testing.TB, c commit.Commitment, data []byte, from, to int) []byte {
	t.Helper()
	var out bytes.Buffer
	testenv.OK(t, writeRange(c, &out, bytes.NewReader(data), int64(from), int64(to)))
	size := testenv.Must(commit.RangeSize(c.Size, int64(from), int64(to)))(t)
	testenv.Equal(t, int64(out.Len()), size, "size of bytes %d to %d of %d", from, to, c.Size)
	return out.Bytes()
}

// read reads a range and verifies it.
func read(in []byte, root commit.Root, size, from, to int64) (data []byte, provesSize bool, err error) {
	r, err := commit.NewReader(bytes.NewReader(in), root, size, from, to)
	if err != nil {
		return nil, false, err
	}
	data, err = io.ReadAll(r)
	return data, r.ProvesSize(), err
}

// ranges returns a blob's ranges: all of it, its borders, single samples and chunksets, and random
// ones.
func ranges(rng *rand.Rand, size int) (list [][2]int) {
	if size == 0 {
		return [][2]int{{0, 0}}
	}
	list = [][2]int{{0, size}, {0, 1}, {size - 1, size}}
	for _, unit := range []int{1 << 10, 1 << 20, 10 << 20} {
		for range 3 {
			from := rng.IntN(size) / unit * unit
			list = append(list, [2]int{from, min(from+unit, size)}, [2]int{max(0, from-1), min(from+1, size)})
		}
	}
	for range 10 {
		from := rng.IntN(size)
		list = append(list, [2]int{from, from + 1 + rng.IntN(size-from)})
	}
	return list
}

// TestProvenRanges reads ranges of blobs of many sizes with their proofs.
// Invariant 222.
func TestProvenRanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	all := random(sizes[len(sizes)-1])
	for _, size := range sizes {
		data := all[:size]
		c := of(data)
		for _, r := range ranges(rng, size) {
			got, _, err := read(proven(t, c, data, r[0], r[1]), c.Root, c.Size, int64(r[0]), int64(r[1]))
			if err != nil || !bytes.Equal(got, data[r[0]:r[1]]) {
				t.Errorf("bytes %d to %d of %d: %d bytes, %v", r[0], r[1], size, len(got), err)
			}
		}
	}
}

// refused checks that nothing but true bytes is returned for a lie, and that it ends with an error.
func refused(t *testing.T, in []byte, root commit.Root, size int64, data []byte, from, to int, lie string) {
	t.Helper()
	got, _, err := read(in, root, size, int64(from), int64(to))
	mismatch := (*commit.MismatchError)(nil)
	if !errors.As(err, &mismatch) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("%s: error %v", lie, err)
	}
	if !bytes.HasPrefix(data[from:to], got) {
		t.Fatalf("%s: %d bytes were returned that are not the blob's", lie, len(got))
	}
}

// TestLies flips each bit in a proven range, cuts it at each byte, and appends to it. It asks for
// another root, size or range. All are refused.
// Invariant 222.
func TestLies(t *testing.T) {
	const size = 21<<20 + 3000
	data := random(size)
	c := of(data)
	for _, r := range [][2]int{{5000, 6500}, {size - 700, size}, {10<<20 - 600, 10<<20 + 600}} {
		from, to := r[0], r[1]
		in := proven(t, c, data, from, to)
		for i := range in {
			refused(t, in[:i], c.Root, size, data, from, to, fmt.Sprintf("cut at %d", i))
			for bit := range 8 {
				in[i] ^= 1 << bit
				refused(t, in, c.Root, size, data, from, to, fmt.Sprintf("bit %d of byte %d", bit, i))
				in[i] ^= 1 << bit
			}
		}
		refused(t, append(slices.Clone(in), 0), c.Root, size, data, from, to, "a byte more")
		for i := range c.Root {
			root := c.Root
			root[i] ^= 1
			refused(t, in, root, size, data, from, to, "another root")
		}
		refused(t, in, c.Chunksets[0].Root, size, data, from, to, "a chunkset's root")
		refused(t, proven(t, c, data, from-1024, to-1024), c.Root, size, data, from, to, "another range")
		other := of(append([]byte{1}, data...))
		refused(t, proven(t, other, append([]byte{1}, data...), from, to), c.Root, size, data, from, to, "another blob")
	}
}

// TestLiesInChunksets checks that a lie in one chunkset is refused with its place, after the bytes
// before it.
// Invariant 222.
func TestLiesInChunksets(t *testing.T) {
	const size = 25 << 20
	data := random(size)
	c := of(data)
	in := proven(t, c, data, 100, size)
	for _, at := range []int{150, 3<<20 + 5, 10 << 20, 17<<20 + 1, size - 1} {
		changed := slices.Clone(data)
		changed[at] ^= 4
		lie := bytes.Replace(in, data[at/1024*1024:][:1024], changed[at/1024*1024:][:1024], 1)
		got, _, err := read(lie, c.Root, size, 100, size)
		mismatch := (*commit.MismatchError)(nil)
		if !errors.As(err, &mismatch) || int(mismatch.From) > at || int(mismatch.To) <= at || mismatch.To-mismatch.From > 1<<20 {
			t.Errorf("a lie at %d: %v", at, err)
		}
		if want := data[100:max(100, at>>20<<20)]; !bytes.Equal(got, want) {
			t.Errorf("a lie at %d: %d bytes were returned, want %d", at, len(got), len(want))
		}
	}
}

// TestLiesOfSize checks that a false size is refused, unless blobs of both sizes have the same
// root: then ProvesSize is false.
// Invariant 223.
func TestLiesOfSize(t *testing.T) {
	const zeros = 300
	data := append(random(3<<20-zeros), make([]byte, zeros)...)
	data[len(data)-zeros-1] = 1
	c := of(data)
	for _, size := range []int{0, 1, 1 << 20, 3<<20 - zeros - 1, 3<<20 - zeros, 3<<20 - 1, 3 << 20, 3<<20 + 1, 10 << 20, 10<<20 + 1, 20 << 20, 40 << 20} {
		claimed := append(slices.Clone(data), make([]byte, 37<<20)...)[:size]
		lie := of(claimed)
		lie.Root = c.Root
		got, proves, err := read(proven(t, lie, claimed, 0, size), c.Root, int64(size), 0, int64(size))
		if same := size >= 3<<20-zeros && size <= 10<<20; (err == nil) != same || same && len(got) != size {
			t.Errorf("a size of %d: %d bytes, %v", size, len(got), err)
		}
		if proves {
			t.Errorf("the root proves the size of %d", size)
		}
	}
}

// TestProvesSize checks for which blobs and ranges the root proves the size.
// Invariant 223.
func TestProvesSize(t *testing.T) {
	data := random(20 << 20)
	data[10<<20-1], data[20<<20-1] = 1, 1
	zero := slices.Clone(data)
	zero[20<<20-1] = 0
	for _, tc := range []struct {
		data     []byte
		from, to int
		want     bool
	}{
		{data, 0, 20 << 20, true}, {data, 20<<20 - 1, 20 << 20, true}, {data, 0, 10 << 20, false}, {data[:10<<20], 5, 10 << 20, true},
		{data[:10<<20-1], 0, 10<<20 - 1, false}, {zero, 0, 20 << 20, false}, {nil, 0, 0, false},
	} {
		c := of(tc.data)
		_, got, err := read(proven(t, c, tc.data, tc.from, tc.to), c.Root, c.Size, int64(tc.from), int64(tc.to))
		testenv.OK(t, err)
		testenv.Equal(t, got, tc.want, "%d bytes, from %d to %d", len(tc.data), tc.from, tc.to)
	}
	r := testenv.Must(commit.NewReader(bytes.NewReader(proven(t, of(data), data, 0, len(data))), of(data).Root, 20<<20, 0, 20<<20))(t)
	if r.ProvesSize() {
		t.Error("the size is proven before the bytes were read")
	}
}

// TestRangesThatDoNotExist checks that they are refused by writer and reader.
func TestRangesThatDoNotExist(t *testing.T) {
	c := of(random(100))
	for _, r := range [][3]int64{{100, 0, 0}, {100, 50, 50}, {100, -1, 5}, {100, 5, 101}, {100, 60, 50}, {0, 0, 1}, {-1, 0, 0}, {1<<63 - 1, 0, 1<<63 - 1}} {
		errs := []error{testenv.Error(commit.RangeSize(r[0], r[1], r[2])), testenv.Error(commit.NewReader(strings.NewReader(""), c.Root, r[0], r[1], r[2]))}
		if r[0] == 100 {
			errs = append(errs, writeRange(c, io.Discard, strings.NewReader(""), r[1], r[2]))
		}
		for _, err := range errs {
			if err == nil || !strings.Contains(err.Error(), "has no bytes from") {
				t.Errorf("%v: %v", r, err)
			}
		}
	}
}

// TestErrorsOfRanges checks the errors for a blob that cannot be read, a failed output, and a
// failed input.
func TestErrorsOfRanges(t *testing.T) {
	data := random(11 << 20)
	c := of(data)
	testenv.Is(t, writeRange(c, io.Discard, bytes.NewReader(data[:10<<20]), 5, 11<<20), io.EOF, "a short blob")
	in := proven(t, c, data, 5, 11<<20-5)
	for _, n := range []int{0, 32, 64, 600, 700, len(in) - 1} {
		testenv.Is(t, writeRange(c, &limited{n}, bytes.NewReader(data), 5, 11<<20-5), io.ErrShortWrite, "an output of %d bytes", n)
		r, err := commit.NewReader(io.MultiReader(bytes.NewReader(in[:n]), iotest.ErrReader(io.ErrClosedPipe)), c.Root, c.Size, 5, 11<<20-5)
		if err == nil {
			err = testenv.Error(io.ReadAll(r))
		}
		testenv.Is(t, err, io.ErrClosedPipe, "an input that fails after %d bytes", n)
	}
}

// limited is a writer that fails after so many bytes.
type limited struct{ n int }

func (l *limited) Write(p []byte) (int, error) {
	if l.n -= len(p); l.n < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

// FuzzReader reads inputs that nobody has written: whatever they are, only the blob's bytes, and
// the zeros that fill up its last chunkset, are returned.
// Invariant 222.
func FuzzReader(f *testing.F) {
	data := random(10<<20 + 5000)
	c := of(data)
	for _, r := range [][2]int{{0, 10}, {3000, 5000}, {10 << 20, len(data)}, {10<<20 - 1500, 10<<20 + 10}} {
		f.Add(proven(f, c, data, r[0], r[1]), c.Size, int64(r[0]), int64(r[1]))
	}
	filled := append(slices.Clone(data), make([]byte, 20<<20-len(data))...)
	f.Fuzz(func(t *testing.T, in []byte, size, from, to int64) {
		got, _, _ := read(in, c.Root, size, from, to) // an error is expected
		if len(got) > 0 && !bytes.HasPrefix(filled[min(from, 20<<20):], got) {
			t.Errorf("bytes %d to %d of %d: %d bytes were returned that are not the blob's", from, to, size, len(got))
		}
	})
}

// BenchmarkRoot measures roots, the encoding and the hashing in them, in bytes of data.
func BenchmarkRoot(b *testing.B) {
	data := random(10 << 20)
	var w commit.Writer
	b.Run("root", func(b *testing.B) {
		b.SetBytes(10 << 20)
		for b.Loop() {
			_, _ = w.Write(data) // it returns no error
			_ = w.Commitment()
		}
	})
	b.Run("sha256 of its samples and nodes", func(b *testing.B) {
		b.SetBytes(10 << 20)
		for b.Loop() {
			for i := range 16 << 10 {
				sample := data[i%(10<<10)*1024:][:1024]
				_, _ = sha256.Sum256(sample), sha256.Sum256(sample[:64])
			}
		}
	})
	b.Run("root of 1 KiB", func(b *testing.B) {
		for b.Loop() {
			_, _ = w.Write(data[:1024]) // it returns no error
			_ = w.Commitment()
		}
	})
	c := of(data)
	in := proven(b, c, data, 5, 10<<20-5)
	b.Run("verify", func(b *testing.B) {
		b.SetBytes(10 << 20)
		for b.Loop() {
			if _, _, err := read(in, c.Root, c.Size, 5, 10<<20-5); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("prove a sample", func(b *testing.B) {
		for b.Loop() {
			if err := writeRange(c, io.Discard, bytes.NewReader(data), 5, 10); err != nil {
				b.Fatal(err)
			}
		}
	})
}
