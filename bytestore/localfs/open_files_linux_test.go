package localfs_test

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/bytestore"
	"sluice/test/testenv"
)

// descriptors returns how many descriptors of this process are of files in a folder.
func descriptors(t *testing.T, dir string) (n int) {
	t.Helper()
	for _, fd := range testenv.Must(os.ReadDir("/proc/self/fd"))(t) {
		// The descriptor by which the folder is read is closed.
		if path, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name())); err == nil && strings.HasPrefix(path, dir+"/") {
			n++
		}
	}
	return n
}

// TestOpenFilesAreBounded opens, closes and deletes objects at random. The process has as many of
// their files open as Stats reports, at most those that may be kept and one for each reader.
func TestOpenFilesAreBounded(t *testing.T) {
	const kept = 5
	dir := testenv.MemoryDir(t)
	s := keeping(t, nil, dir, kept)
	rng := rand.New(rand.NewPCG(1, 2))
	names := make([]bytestore.Name, 30)
	for i := range names {
		names[i] = putNew(t, s)
	}
	var readers []io.Closer
	most := 0
	for range 3000 {
		name := names[rng.IntN(len(names))]
		switch rng.IntN(5) {
		case 0, 1:
			readers = append(readers, testenv.Must(s.Open(t.Context(), name, 3, 4))(t))
		case 2, 3:
			if len(readers) > 0 {
				i := rng.IntN(len(readers))
				testenv.OK(t, readers[i].Close())
				readers[i] = readers[len(readers)-1]
				readers = readers[:len(readers)-1]
			}
		default:
			testenv.OK(t, s.Delete(t.Context(), name))
			testenv.OK(t, put(t, s, name, contentOf(name)))
		}
		n := descriptors(t, dir)
		most = max(most, n)
		if n > kept+len(readers) || int64(n) != s.Stats().Open {
			t.Fatalf("%d files are open with %d readers, and %d are counted", n, len(readers), s.Stats().Open)
		}
	}
	if most < kept+3 {
		t.Errorf("at most %d files were open, which shows nothing", most)
	}
	for _, r := range readers {
		testenv.OK(t, r.Close())
	}
	testenv.OK(t, s.Close())
	testenv.Equal(t, descriptors(t, dir), 0, "open files in the end")
}
