package engine

import (
	"os"
	"path/filepath"
	"testing"

	"sluice/test/testenv"
)

// TestProbeSpace probes a folder with space and one that does not exist: neither is a full
// disk, and no file remains.
func TestProbeSpace(t *testing.T) {
	dir := t.TempDir()
	testenv.Check(t, probeSpace(dir))
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files that remain: %v, %v", left, err)
	}
	if err := probeSpace(filepath.Join(dir, "missing")); err == nil || noRoom(err) {
		t.Errorf("a missing folder: %v", err)
	}
}
