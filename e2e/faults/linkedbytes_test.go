//go:build unix

package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestLinkedBytes starts data folders that reach one folder of bytes by symbolic links. While one
// server runs, a second one does not start, and reset refuses. When the original has started again
// and so holds the bytes, a server on the older copy of its database does not start, and the
// original still does.
// Invariant 97.
func TestLinkedBytes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	bytes, first, second := filepath.Join(root, "disk"), filepath.Join(root, "first"), filepath.Join(root, "second")
	for _, folder := range []string{bytes, first, second} {
		testenv.OK(t, os.Mkdir(folder, 0o700))
	}
	link := filepath.Join(root, "link") // another path to the same bytes
	err := errors.Join(os.Symlink(bytes, link), os.Symlink(bytes, filepath.Join(first, "bytes")), os.Symlink(link, filepath.Join(second, "bytes")))
	testenv.OK(t, err)
	original := e2e.Start(t, e2e.Options{Data: first, Dirty: true})
	data := e2e.Content(1, 100_000)
	original.Must(204, "PUT", e2e.BlobTarget("0x1", "kept"), data)
	original.Stop()
	text, err := os.ReadFile(filepath.Join(first, "meta.db"))
	if err == nil {
		err = os.WriteFile(filepath.Join(second, "meta.db"), text, 0o600)
	}
	testenv.OK(t, err)

	original = e2e.Start(t, e2e.Options{Data: first, Dirty: true})
	if said := e2e.RefusedStart(t, e2e.Options{Data: second}); !strings.Contains(said, "is in use by another sluice, from another data folder") {
		t.Errorf("start of a second data folder on the same bytes: %s", said)
	}
	original.Holds(e2e.BlobTarget("0x1", "kept"), data)
	original.Eventually("the second start does not hold the bytes", func() bool {
		records, err := filepath.Glob(filepath.Join(bytes, "sluice-history-????????????????"))
		return err == nil && len(records) > 2 // two are from the first start
	})
	original.Stop()

	// The copy is older than the bytes. The original's second start has become their holder.
	if said := e2e.RefusedStart(t, e2e.Options{Data: second}); !strings.Contains(said, "another database with the same instance id") {
		t.Errorf("start of an older copy of the database on the same bytes: %s", said)
	}
	original = e2e.Start(t, e2e.Options{Data: first, Dirty: true})
	original.Must(200, "GET", e2e.BlobTarget("0x1", "kept"), nil)
}
