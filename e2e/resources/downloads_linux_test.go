package resources

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/internal/vfs"
	"sluice/test/testenv"
)

// TestSyncsOfADownload counts the syncs of get -r to a disk: no file gets its name before a sync
// that follows its last write, and where the file system can be synced as a whole, a sync serves
// many files.
func TestSyncsOfADownload(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.Strace)
	s := e2e.Start(t, e2e.Options{})
	const files = 200
	for i := range files {
		s.Must(204, "PUT", e2e.BlobTarget("0x1", fmt.Sprint("many/", i)), e2e.Content(uint64(i), 1000))
	}
	dir := t.TempDir()
	whole, err := vfs.OS().Whole(dir)
	together := !errors.Is(err, errors.ErrUnsupported)
	if together {
		testenv.OK(t, errors.Join(err, whole.Close()))
	}
	trace := filepath.Join(dir, "trace")
	command := exec.CommandContext(t.Context(), "strace", "-f", "--seccomp-bpf", "-q", "-y", "-e", "trace=pwrite64,fsync,syncfs,renameat,renameat2", "-e", "signal=none", "-o", trace,
		e2e.Sluice, "get", "-r", "--url", s.URL, "0x1/many/", filepath.Join(dir, "out"))
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("get -r: %v: %s", err, out)
	}
	syncs, renames := 0, 0
	unsynced := map[string]bool{} // temporary files with bytes that no sync has followed
	var syncing map[string]bool   // those that a sync of the file system has begun with
	for _, c := range parseCalls(t, strings.Split(string(testenv.Must(os.ReadFile(trace))(t)), "\n")) {
		if c.name == "syncfs" && c.begun {
			syncing = maps.Clone(unsynced)
		}
		switch {
		case c.name == "pwrite64" && c.begun:
			_, path, _ := strings.Cut(c.args, "<")
			path, _, _ = strings.Cut(path, ">")
			unsynced[filepath.Base(path)] = true
		case c.name == "syncfs" && c.done && c.result == 0:
			maps.DeleteFunc(unsynced, func(name string, _ bool) bool { return syncing[name] })
			syncs++
		case c.name == "fsync" && c.done && c.result == 0 && strings.Contains(c.args, ".sluice-part>"):
			_, path, _ := strings.Cut(c.args, "<")
			delete(unsynced, filepath.Base(strings.TrimSuffix(path, ">")))
			syncs++
		case strings.HasPrefix(c.name, "rename") && c.begun && strings.Contains(c.args, ".sluice-part"):
			renames++
			name := c.args[strings.Index(c.args, `"`)+1:]
			if name = name[:strings.Index(name, `"`)]; unsynced[name] {
				t.Errorf("%s was renamed before it was synced", name)
			}
		}
	}
	testenv.Equal(t, renames, files, "files that got their names")
	if together && syncs > files/10 {
		t.Errorf("%d files needed %d syncs", files, syncs)
	}
}
