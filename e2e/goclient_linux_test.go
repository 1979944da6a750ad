package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"sluice/internal/testenv"
)

// transferMemory is the memory that the Go client may use, however large a file is.
const transferMemory = 100 << 20

// TestGoClientMemory uploads a sparse file of 1 GiB and downloads it.
func TestGoClientMemory(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector records memory, too")
	}
	t.Parallel()
	s := start(t, options{})
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	if err := os.WriteFile(source, []byte("not only zeros"), 0o600); err != nil {
		t.Fatal(err)
	}
	const size = 1 << 30
	if err := os.Truncate(source, size); err != nil {
		t.Fatal(err)
	}
	for _, tr := range []clientTransfer{
		{URL: s.url, Path: source, Put: true},
		{URL: s.url, Path: filepath.Join(dir, "target")},
	} {
		peak := finishTransfer(t, startTransfer(t, tr))
		t.Logf("put %v: peak memory %d MiB", tr.Put, peak>>20)
		if peak == 0 || peak > transferMemory {
			t.Errorf("put %v: the client used %d MiB, limit %d MiB", tr.Put, peak>>20, transferMemory>>20)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "target")); err != nil || info.Size() != size {
		t.Errorf("%v, %v", info, err)
	}
}
