package vfstest_test

import (
	"io/fs"
	"slices"
	"syscall"
	"testing"

	"sluice/test/vfstest"
)

// TestTrace checks a trace's lines.
func TestTrace(t *testing.T) {
	var lines []string
	fsys := vfstest.Trace(vfstest.NewCrash(), func(line string) { lines = append(lines, line) })
	wantErr(t, fsys.Mkdir("/d"), nil)
	vfstest.Write(t, fsys, "/d/f", "abc", true)
	wantErr(t, fsys.Rename("/d/f", "/d/g"), nil)
	wantErr(t, fsys.SyncDir("/d"), nil)
	wantErr(t, fsys.Remove("/d/f"), fs.ErrNotExist)
	want := []string{
		"mkdir /d", "create /d/f", "write /d/f 3", "fsync /d/f", "close /d/f",
		"rename /d/f /d/g", "fsync folder /d", "remove /d/f: remove /d/f: " + syscall.ENOENT.Error(),
	}
	if !slices.Equal(lines, want) {
		t.Fatalf("trace:\n%q\nwant:\n%q", lines, want)
	}
}
