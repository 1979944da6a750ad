package testenv

import (
	"os"
	"testing"
)

// MemoryDir returns a new folder that is removed when the test ends, as tb.TempDir does. Where the
// system has a folder in memory, it is there, so that an fsync in it costs nothing. It is for tests
// in which no power fails; a program that is killed loses nothing in it. A benchmark gets a folder
// on the disk.
func MemoryDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp(rootFor(tb), "sluice-test-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

// rootFor returns the folder in which a test's folders are made: in memory if there is one, and on
// the disk for a benchmark. "" is the default folder of temporary files.
func rootFor(tb testing.TB) string {
	if _, measures := tb.(*testing.B); measures {
		return ""
	}
	return MemoryRoot()
}
