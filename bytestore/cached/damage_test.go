package cached_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"sluice/bytestore/cached"
	"sluice/test/testenv"
)

// TestDamagedFilesAreFetchedAgain damages a block's file in many ways. The bytes read must be
// correct, and the file must be intact afterwards.
// Invariant 86.
func TestDamagedFilesAreFetchedAgain(t *testing.T) {
	const size = 100_000 // 4 segments, the last one short
	dir, inner := testenv.MemoryDir(t), watch()
	s := mustOpen(t, inner, dir, cached.Options{})
	object, data := put(t, s, 1, size)
	other, otherData := put(t, s, 2, size)
	wantRead(t, s, other, otherData, 0, size)
	foreign := mustRead(t, onlyFile(t, dir))
	wantErr(t, s.Delete(t.Context(), other), nil)
	wantRead(t, s, object, data, 0, size)

	type damage struct {
		name string
		do   func(file []byte) []byte
	}
	damages := []damage{
		{"emptied", func([]byte) []byte { return nil }},
		{"grown", func(file []byte) []byte { return append(file, 0) }},
		{"zeroed", func(file []byte) []byte { return make([]byte, len(file)) }},
		{"of another object", func([]byte) []byte { return foreign }},
		{"with two segments swapped", func(file []byte) []byte {
			a, b := file[256:][:32<<10], file[256+32<<10:][:32<<10]
			held := bytes.Clone(a)
			copy(a, b)
			copy(b, held)
			return file
		}},
	}
	for _, n := range []int{1, 255, 256, 257, 256 + 32<<10, 256 + size - 1} {
		damages = append(damages, damage{fmt.Sprintf("cut to %d bytes", n), func(file []byte) []byte { return file[:n] }})
	}
	for at := 0; at < 256+size; at += 1 + 4999*min(1, at/300) { // each byte in the header, and some in the block
		damages = append(damages, damage{fmt.Sprintf("flipped at %d", at), func(file []byte) []byte {
			file[at] ^= 1 << (at % 8)
			return file
		}})
	}
	for i, d := range damages {
		name := onlyFile(t, dir)
		whole := mustRead(t, name)
		mustWrite(t, name, d.do(bytes.Clone(whole)))
		got, err := read(t.Context(), s, object, 0, size)
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%s: %v", d.name, err)
		}
		if now := s.Stats(); now.Damaged != int64(i+1) || now.Blocks != 1 || s.Err() != nil {
			t.Fatalf("%s: %+v, %v", d.name, now, s.Err())
		}
		if !bytes.Equal(mustRead(t, onlyFile(t, dir)), whole) {
			t.Fatalf("%s: the file was not made whole", d.name)
		}
	}
	inner.opened(t, int64(2+len(damages)))
}

// TestDamageAcrossRestart checks that the damage which a power failure does to unsynced files is
// detected when they are read.
func TestDamageAcrossRestart(t *testing.T) {
	for _, n := range []int{0, 100, 256, 300, 256 + 40_000} {
		dir, inner := testenv.MemoryDir(t), watch()
		s := mustOpen(t, inner, dir, cached.Options{})
		name, data := put(t, s, 1, 100_000)
		wantRead(t, s, name, data, 0, 100_000)
		wantErr(t, s.Close(), nil)
		wantErr(t, os.Truncate(onlyFile(t, dir), int64(n)), nil)
		s = mustOpen(t, inner, dir, cached.Options{})
		for range 2 {
			wantRead(t, s, name, data, 0, 1000) // which a truncated file may seem to cover
			wantRead(t, s, name, data, 0, 100_000)
		}
		onlyFile(t, dir)
	}
}

// TestDamageOfAnOpenBlock damages the block that a reader has open. The reader must continue with
// correct bytes.
func TestDamageOfAnOpenBlock(t *testing.T) {
	dir, inner := testenv.MemoryDir(t), watch()
	s := mustOpen(t, inner, dir, cached.Options{})
	object, data := put(t, s, 1, mib)
	wantRead(t, s, object, data, 0, mib)
	r := testenv.Must(s.Open(t.Context(), object, 0, mib))(t)
	got := make([]byte, mib)
	testenv.Must(io.ReadFull(r, got[:100_000]))(t)
	name := onlyFile(t, dir)
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	testenv.OK(t, err)
	_, err = f.WriteAt(make([]byte, 1000), 256+500_000)
	wantErr(t, errors.Join(err, f.Close()), nil)
	if _, err := io.ReadFull(r, got[100_000:]); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read on over damage: %v", err)
	}
	wantErr(t, r.Close(), nil)
	if now := s.Stats(); now.Damaged != 1 || now.Fetches != 2 {
		t.Errorf("%+v", now)
	}
}

// TestReadOfADamagedBlock checks that the Read that finds the damage returns bytes.
func TestReadOfADamagedBlock(t *testing.T) {
	dir := testenv.MemoryDir(t)
	s := mustOpen(t, watch(), dir, cached.Options{})
	object, data := put(t, s, 1, 5000)
	wantRead(t, s, object, data, 0, 5000)
	r, err := s.Open(t.Context(), object, 0, 5000)
	wantErr(t, err, nil)
	name := onlyFile(t, dir)
	file := mustRead(t, name)
	file[300]++
	mustWrite(t, name, file)
	p := make([]byte, 5000)
	if n, err := r.Read(p); err != nil || n == 0 || !bytes.Equal(p[:n], data[:n]) {
		t.Errorf("%d bytes, %v", n, err)
	}
	wantErr(t, r.Close(), nil)
}

// TestRemovedFolder checks that removing the cache's files causes only further fetches.
func TestRemovedFolder(t *testing.T) {
	dir, inner := testenv.MemoryDir(t), watch()
	s := mustOpen(t, inner, dir, cached.Options{})
	name, data := put(t, s, 1, 3*mib)
	for range 2 {
		wantRead(t, s, name, data, 0, 3*mib)
		entries := testenv.Must(os.ReadDir(dir))(t)
		for _, e := range entries {
			wantErr(t, os.RemoveAll(dir+"/"+e.Name()), nil)
		}
	}
	wantRead(t, s, name, data, 0, 3*mib)
	wantRead(t, s, name, data, 0, 3*mib)
	if now := s.Stats(); now.Fetches != 9 || now.Hits != 3 || now.Bypasses != 0 {
		t.Errorf("%+v", now)
	}
}
