package commands

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestSyncTracksRenamesOfFolders renames a folder of 300 files, and changes one without changing
// its size: only this one is sent.
func TestSyncTracksRenamesOfFolders(t *testing.T) {
	t.Parallel()
	const files, size = 300, 5000
	s := e2e.Start(t, e2e.Options{})
	p := e2e.NewCountingProxy(t, s)
	tree := map[string]string{}
	for i := range files {
		tree[fmt.Sprintf("first/%d/%03d", i%7, i)] = string(e2e.Content(uint64(i), size))
	}
	dir := e2e.MakeTree(t, tree)
	for _, step := range []struct {
		name, from, to string
		flags          []string
		change         bool
		sent           int64 // files
		summary        string
	}{
		{name: "a new folder", sent: files, summary: "300 copied (1.4 MiB)\n"},
		{name: "a renamed folder", from: "first", to: "second", summary: "300 copied (1.4 MiB)\n"},
		{name: "a dry run", from: "second", to: "third", flags: []string{"--delete", "--dry-run"}, summary: "dry run: 300 to move, 300 to delete\n"},
		{name: "a changed file", change: true, flags: []string{"--delete"}, sent: 1, summary: "1 copied (4.9 KiB), 299 moved, 301 deleted\n"},
		{name: "the same", flags: []string{"--delete"}, summary: "300 unchanged\n"},
	} {
		if step.from != "" {
			testenv.OK(t, os.Rename(filepath.Join(dir, step.from), filepath.Join(dir, step.to)))
		}
		if step.change {
			testenv.OK(t, os.WriteFile(filepath.Join(dir, "third", "0", "000"), e2e.Content(files, size), 0o600))
		}
		p.Mu.Lock()
		p.Bytes = 0
		p.Mu.Unlock()
		r := e2e.SluiceRuns(t, append([]string{"sync", "--track-renames", dir, ":team/site", "--url", p.URL}, step.flags...)...)
		if r.Code != 0 || !strings.HasSuffix(r.Stderr, "\n"+step.summary) && r.Stderr != step.summary {
			t.Fatalf("%s: exit code %d, the end of stderr is %q", step.name, r.Code, r.Stderr[max(0, len(r.Stderr)-200):])
		}
		p.Wait()
		t.Logf("%s: %d bytes were sent", step.name, p.Bytes)
		if rest := p.Bytes - step.sent*size; rest < 0 || rest > files*200 { // requests to copy and to move have bodies
			t.Errorf("%s: %d bytes were sent in addition to %d files", step.name, rest, step.sent)
		}
	}
	got := filepath.Join(t.TempDir(), "got")
	if r := s.Sluice("get", "-r", "team/site/", got, "-q"); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	if !maps.Equal(readTree(t, got), readTree(t, dir)) {
		t.Error("the blobs are not the files")
	}
}
