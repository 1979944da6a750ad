package clients

import (
	"os"
	"path/filepath"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// The memory that the Go client may use, however large a content is. It keeps four parts of 16 MiB
// from a stream.
const (
	fileMemory   = 50 << 20
	streamMemory = 150 << 20
)

// TestGoClientMemory uploads a sparse file of 1 GiB, also through a pipe, and downloads it.
// Invariant 148.
func TestGoClientMemory(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	testenv.OK(t, os.WriteFile(source, []byte("not only zeros"), 0o600))
	const size = 1 << 30
	testenv.OK(t, os.Truncate(source, size))
	for _, test := range []struct {
		name     string
		transfer clientTransfer
		limit    int64
	}{
		{"upload", clientTransfer{URL: s.URL, Path: source, Put: true}, fileMemory},
		{"upload through a pipe", clientTransfer{URL: s.URL, Path: source, Pipe: true}, streamMemory},
		{"download", clientTransfer{URL: s.URL, Path: filepath.Join(dir, "target")}, fileMemory},
	} {
		peak := finishTransfer(t, startTransfer(t, test.transfer))
		t.Logf("%s: peak memory %d MiB", test.name, peak>>20)
		// The race detector records memory, too.
		if peak == 0 || peak > test.limit && !testenv.Race {
			t.Errorf("%s: the client used %d MiB, limit %d MiB", test.name, peak>>20, test.limit>>20)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "target")); err != nil || info.Size() != size {
		t.Errorf("%v, %v", info, err)
	}
}
