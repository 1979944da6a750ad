package cached

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/bytestore"
	"sluice/internal/vfs"
	"sluice/test/testenv"
)

func FuzzHeader(f *testing.F) {
	for _, size := range []int{1, segmentSize, segmentSize + 1, blockSize} {
		h := newHeader(blockID{bytestore.NewName(time.UnixMilli(1)), 7}, make([]byte, size))
		b := make([]byte, headerSize)
		h.put(b)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeader(b)
		if err != nil {
			return
		}
		again := make([]byte, headerSize)
		h.put(again)
		if !bytes.Equal(again, b) {
			t.Errorf("%x was read as %+v", b, h)
		}
		if h.length < 1 || h.length > blockSize || h.number < 0 || h.used() > segments {
			t.Errorf("%+v", h)
		}
	})
}

func FuzzFileName(f *testing.F) {
	e := &entry{span{blockID{bytestore.NewName(time.UnixMilli(1)), 7}, 5}, 0xabc}
	f.Add(e.fileName(), int64(headerSize+5))
	f.Add(tempPrefix+e.fileName(), int64(headerSize+5))
	f.Add("x.+7.0", int64(-1))
	f.Fuzz(func(t *testing.T, name string, size int64) {
		e, ok := parseName(name, size)
		if !ok {
			return
		}
		if e.fileName() != name || !e.object.Valid() || e.length < 1 || e.length > blockSize || e.number < 0 {
			t.Errorf("%q of %d bytes was read as %+v", name, size, e)
		}
	})
}

// TestOtherHeadersAreRefused checks that headers that put does not write are rejected although
// their checksum is correct.
func TestOtherHeadersAreRefused(t *testing.T) {
	data := make([]byte, segmentSize+1)
	whole := func(change func(h *header)) []byte {
		h := newHeader(blockID{bytestore.NewName(time.UnixMilli(1)), 7}, data)
		change(h)
		b := make([]byte, headerSize)
		h.put(b)
		return b
	}
	testenv.OK(t, testenv.Error(parseHeader(whole(func(*header) {}))))
	for name, change := range map[string]func(*header){
		"no bytes":             func(h *header) { h.length = 0 },
		"too many bytes":       func(h *header) { h.length = blockSize + 1 },
		"a negative number":    func(h *header) { h.number = -1 },
		"a sum of no segment":  func(h *header) { h.sums[2] = 1 },
		"a sum beyond its end": func(h *header) { h.length = segmentSize },
	} {
		if h, err := parseHeader(whole(change)); err == nil {
			t.Errorf("%s: read as %+v", name, h)
		}
	}
	if _, err := parseHeader(nil); err == nil {
		t.Error("nothing was read as a header")
	}
}

// TestSmallestAndLargest checks the smallest and largest header, name and file.
func TestSmallestAndLargest(t *testing.T) {
	longest := bytestore.Name(strings.Repeat("k", maxName))
	b := make([]byte, headerSize)
	newHeader(blockID{longest, 0}, make([]byte, 1)).put(b)
	if h, err := parseHeader(b); err != nil || h.object != longest || h.length != 1 {
		t.Errorf("one byte with the longest name: %+v, %v", h, err)
	}
	name := (&entry{span{blockID{bytestore.NewName(time.UnixMilli(1)), 7}, 1}, 0xabc}).fileName()
	for size, want := range map[int64]bool{headerSize: false, headerSize + 1: true, headerSize + blockSize: true, headerSize + blockSize + 1: false} {
		if _, ok := parseName(name, size); ok != want {
			t.Errorf("a file of %d bytes is an entry: %t", size, ok)
		}
	}
	for length, want := range map[int64]int64{1: diskBlock, diskBlock - headerSize: diskBlock, diskBlock - headerSize + 1: 2 * diskBlock} {
		testenv.Equal(t, (&entry{span: span{length: length}}).size(), want, "the file of a block of %d bytes", length)
	}
}

// TestReadAtCosts checks that readAt returns bytes for every offset and length, directly if they
// are whole segments, and otherwise of one segment, and that it tracks the file position after
// each.
func TestReadAtCosts(t *testing.T) {
	const length = 3*segmentSize + 100
	data := make([]byte, length)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	e := &entry{span{blockID{bytestore.NewName(time.UnixMilli(1)), 0}, length}, 1}
	file := make([]byte, headerSize, headerSize+length)
	newHeader(e.blockID, data).put(file)
	name := filepath.Join(testenv.MemoryDir(t), "block")
	testenv.OK(t, os.WriteFile(name, append(file, data...), 0o600))
	for _, c := range []struct{ off, n, want, pos int64 }{
		{0, length, length, length},
		{0, length + 1, length, length},
		{0, length - 1, 3 * segmentSize, 3 * segmentSize},
		{0, 2*segmentSize + 10, 2 * segmentSize, 2 * segmentSize},
		{segmentSize, 2 * segmentSize, 2 * segmentSize, 3 * segmentSize},
		{segmentSize, length, length - segmentSize, length},
		{0, 10, 10, segmentSize},
		{10, length, segmentSize - 10, segmentSize},
		{segmentSize + 1, 7, 7, 2 * segmentSize},
		{length - 50, 10, 10, length},
		{length - 50, 100, 50, length},
	} {
		b := testenv.Must(openBlock(vfs.OS(), name, e))(t)
		p := make([]byte, c.n)
		got, err := b.readAt(p, c.off)
		if err != nil || int64(got) != c.want || b.pos != c.pos || !bytes.Equal(p[:got], data[c.off:c.off+int64(got)]) {
			t.Errorf("%d at %d: %d bytes, then at %d (%v), want %d and %d", c.n, c.off, got, b.pos, err, c.want, c.pos)
		}
		testenv.Check(t, b.close())
	}
}
