//go:build unix

package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLinkedBytes starts data folders whose bytes are one folder, reached by symbolic links: a
// second one is refused while the first runs, and of an instance and the copy of its database that
// run one after the other the last one holds the bytes, so that the first is refused from then on.
func TestLinkedBytes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	bytes, first, second := filepath.Join(root, "disk"), filepath.Join(root, "first"), filepath.Join(root, "second")
	for _, folder := range []string{bytes, first, second} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(root, "link") // another path of the same bytes
	err := errors.Join(os.Symlink(bytes, link), os.Symlink(bytes, filepath.Join(first, "bytes")), os.Symlink(link, filepath.Join(second, "bytes")))
	if err != nil {
		t.Fatal(err)
	}
	original := start(t, options{data: first, dirty: true})
	data := content(1, 100_000)
	original.must(204, "PUT", blobTarget("0x1", "kept"), data)
	original.stop()
	text, err := os.ReadFile(filepath.Join(first, "meta.db"))
	if err == nil {
		err = os.WriteFile(filepath.Join(second, "meta.db"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}

	original = start(t, options{data: first, dirty: true})
	if said := refusedStart(t, options{data: second}); !strings.Contains(said, "is in use by another sluice, from another data folder") {
		t.Errorf("start of a second data folder on the same bytes: %s", said)
	}
	if r := sluiceRuns(t, "reset", "--yes", "--data", second); r.code == 0 {
		t.Errorf("reset of a data folder whose bytes are elsewhere: %s%s", r.stdout, r.stderr)
	}
	if r := original.must(200, "GET", blobTarget("0x1", "kept"), nil); digest(r.body) != digest(data) {
		t.Errorf("the blob has %d other bytes", len(r.body))
	}
	original.eventually("the second start does not hold the bytes", func() bool {
		epochs, err := filepath.Glob(filepath.Join(bytes, "sluice-epoch-*-owner"))
		return err == nil && len(epochs) > 1
	})
	original.stop()

	// The copy is older than the bytes, of which the second start of the original has become the
	// owner.
	if said := refusedStart(t, options{data: second}); !strings.Contains(said, "another database with the same instance id") {
		t.Errorf("start of an older copy of the database on the same bytes: %s", said)
	}
	original = start(t, options{data: first, dirty: true})
	original.must(200, "GET", blobTarget("0x1", "kept"), nil)
}
