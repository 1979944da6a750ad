package engine

import (
	"os"
	"path/filepath"
	"testing"
)

// TestProbeSpace probes a folder with space and one that does not exist: neither is a full
// disk, and no file remains.
func TestProbeSpace(t *testing.T) {
	dir := t.TempDir()
	if err := probeSpace(dir); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files that remain: %v, %v", left, err)
	}
	if err := probeSpace(filepath.Join(dir, "missing")); err == nil || noRoom(err) {
		t.Errorf("a missing folder: %v", err)
	}
}
