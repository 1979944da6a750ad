package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/cached"
	"sluice/bytestore/memory"
	"sluice/integrity"
	"sluice/test/testenv"
)

// TestDamagedCopyIsEvicted checks that a cached copy that was damaged is dropped: the read gets the
// bytes from the underlying store, and so does the next one.
// Invariant 86.
func TestDamagedCopyIsEvicted(t *testing.T) {
	f := newFixture(t, blob.Options{})
	want := randomBytes(7, 1<<20)
	f.put(t, "n", want)
	inner := &flippingOnce{Store: f.bytes}
	copies := testenv.Must(cached.Open(inner, testenv.MemoryDir(t), cached.Options{Size: 8 << 20}))(t)
	defer func() { testenv.Check(t, copies.Close()) }()
	s := blob.New(f.meta, copies, blob.Options{OpenStored: f.bytes.Open})
	read := func() ([]byte, error) {
		c, err := s.Open(t.Context(), "a", "n")
		testenv.OK(t, err)
		defer c.Close()
		var got bytes.Buffer
		_, err = c.WriteRange(t.Context(), &got, 0, c.Size)
		return got.Bytes(), err
	}
	if got, err := read(); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("the first read: %d bytes, %v", len(got), err)
	}
	f.wantDamage(t, nil, "after a cached copy was damaged")
	if got, err := read(); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("the next read: %d bytes, %v", len(got), err)
	}
}

// TestOnlyTheStoreReportsDamage checks that an unreachable store is not reported as damage.
// Invariant 14.
func TestOnlyTheStoreReportsDamage(t *testing.T) {
	broken := &brokenStore{Store: memory.New()}
	for _, buffers := range []int64{0, -1} {
		f := newOverStore(t, broken, blob.Options{ReadBuffers: buffers})
		f.put(t, "n", randomBytes(1, 1<<20))
		c := f.open(t, "n")
		for err, damaged := range map[error]bool{
			bytestore.ErrNotFound:  true,
			bytestore.ErrTruncated: true,
			syscall.EIO:            true,
			io.EOF:                 true,
			fmt.Errorf("%w: %w", bytestore.ErrOverloaded, io.ErrUnexpectedEOF): false,
			io.ErrUnexpectedEOF:      false,
			syscall.ECONNRESET:       false,
			syscall.EMFILE:           false,
			context.DeadlineExceeded: false,
		} {
			for _, after := range []int64{-1, 0, 5000, 1<<20 - 1} {
				broken.after, broken.err = after, err
				n, got := c.WriteRange(t.Context(), io.Discard, 0, c.Size)
				if n != 0 || !errors.Is(got, err) || errors.Is(got, integrity.ErrCorrupt) != damaged {
					t.Errorf("%v after %d bytes: %d bytes, %v; damaged: %t", err, after, n, got, damaged)
				}
			}
		}
	}
}

// TestDamagedInlineBodyIsNotServed checks that inline contents are compared with their checksum,
// whichever range is requested.
// Invariant 4.
func TestDamagedInlineBodyIsNotServed(t *testing.T) {
	f := newFixture(t, blob.Options{VerifyTTL: time.Hour})
	rows := &damagedRows{Metadata: f.meta}
	f.Service = blob.New(rows, f.bytes, blob.Options{VerifyTTL: time.Hour})
	body := randomBytes(1, 4<<10)
	for name, damage := range map[string]func([]byte) []byte{
		"as stored":   func(b []byte) []byte { return b },
		"first bit":   func(b []byte) []byte { b[0] ^= 1; return b },
		"last bit":    func(b []byte) []byte { b[len(b)-1] ^= 0x80; return b },
		"shorter":     func(b []byte) []byte { return b[:len(b)-1] },
		"longer":      func(b []byte) []byte { return append(b, 0) },
		"nothing":     func([]byte) []byte { return nil },
		"another one": func(b []byte) []byte { return randomBytes(2, len(b)) },
	} {
		rows.damage = func(b []byte) []byte { return b }
		f.put(t, "n", body)
		f.wantObjects(t, 0, "of an inline body")
		rows.damage = damage
		c := testenv.Must(f.Open(t.Context(), "a", "n"))(t)
		for _, r := range [][2]int64{{0, int64(len(body))}, {100, 50}} { // the second range contains no damage
			var out bytes.Buffer
			n, err := c.WriteRange(t.Context(), &out, r[0], r[1])
			if name == "as stored" {
				if err != nil || !bytes.Equal(out.Bytes(), body[r[0]:r[0]+r[1]]) {
					t.Errorf("%s: %d bytes, %v", name, n, err)
				}
			} else if n != 0 || out.Len() != 0 || !errors.Is(err, integrity.ErrCorrupt) {
				t.Errorf("%s, %v: %d bytes, %v", name, r, n, err)
			}
		}
		c.Close()
	}
}
