package cached

import (
	"bytes"
	"testing"
	"time"

	"sluice/bytestore"
)

func FuzzHeader(f *testing.F) {
	for _, size := range []int{1, segmentSize, segmentSize + 1, blockSize} {
		h := newHeader(blockID{bytestore.NewKey(time.UnixMilli(1)), 7}, make([]byte, size))
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
	e := &entry{span{blockID{bytestore.NewKey(time.UnixMilli(1)), 7}, 5}, 0xabc}
	f.Add(e.name(), int64(headerSize+5))
	f.Add(tempPrefix+e.name(), int64(headerSize+5))
	f.Add("x.+7.0", int64(-1))
	f.Fuzz(func(t *testing.T, name string, size int64) {
		e, ok := parseName(name, size)
		if !ok {
			return
		}
		if e.name() != name || !e.key.Valid() || e.length < 1 || e.length > blockSize || e.number < 0 {
			t.Errorf("%q of %d bytes was read as %+v", name, size, e)
		}
	})
}

// TestOtherHeadersAreRefused checks that headers that put does not write are rejected
// although their checksum is correct.
func TestOtherHeadersAreRefused(t *testing.T) {
	data := make([]byte, segmentSize+1)
	whole := func(change func(h *header)) []byte {
		h := newHeader(blockID{bytestore.NewKey(time.UnixMilli(1)), 7}, data)
		change(h)
		b := make([]byte, headerSize)
		h.put(b)
		return b
	}
	if _, err := parseHeader(whole(func(*header) {})); err != nil {
		t.Fatal(err)
	}
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
