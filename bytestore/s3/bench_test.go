package s3_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/bytetest"
	"sluice/bytestore/localfs"
	"sluice/test/testenv"
)

// onDisk returns harnesses of localfs stores, for comparison.
func onDisk(tb testing.TB) bytetest.Harness {
	s := testenv.Must(localfs.Open(tb.TempDir(), localfs.Options{}))(tb)
	testenv.AtEnd(tb, s.Close)
	return bytetest.Harness{Open: func() (bytestore.Store, error) { return s, nil }}
}

// Benchmark compares the store with localfs. The server runs on the same machine and does not sync,
// so puts measure the cost of requests, not durability.
func Benchmark(b *testing.B) {
	server := testenv.S3(b, testenv.S3Options{})
	for name, newHarness := range map[string]func(testing.TB) bytetest.Harness{"s3": harnesses(server), "localfs": onDisk} {
		b.Run(name, func(b *testing.B) {
			bytetest.Bench(b, newHarness)
			for _, goroutines := range []int{1, 4} {
				benchExtents(b, newHarness, goroutines)
			}
		})
	}
}

// benchExtents measures objects as long as the longest that package blob stores.
func benchExtents(b *testing.B, newHarness func(testing.TB) bytetest.Harness, goroutines int) {
	const size = 16 * mib
	data := content(1, size)
	name := map[int]string{1: "16MiB/1goroutine", 4: "16MiB/4goroutines"}[goroutines]
	b.Run("put/"+name, func(b *testing.B) {
		s := testenv.Must(newHarness(b).Open())(b)
		bytetest.Parallel(b, goroutines, size, func() error {
			object := newName()
			return errors.Join(s.Put(b.Context(), object, bytes.NewReader(data), size), s.Delete(b.Context(), object))
		})
	})
	b.Run("read/"+name, func(b *testing.B) {
		s := testenv.Must(newHarness(b).Open())(b)
		object := newName()
		testenv.OK(b, s.Put(b.Context(), object, bytes.NewReader(data), size))
		bytetest.Parallel(b, goroutines, size, func() error {
			r, err := s.Open(b.Context(), object, 0, size)
			if err != nil {
				return err
			}
			_, err = io.CopyN(io.Discard, r, size)
			return errors.Join(err, r.Close())
		})
	})
}
