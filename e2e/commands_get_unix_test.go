//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestGetKeepsWhatIsNoFile checks with a pipe that the command replaces no device by a file.
func TestGetKeepsWhatIsNoFile(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	s.must(204, "PUT", "/v1/blobs/team/dir/a", []byte("text"))
	dir := t.TempDir()
	pipe := filepath.Join(dir, "a")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := s.sluice("get", "team/dir/a", pipe); r.code != 2 || r.stderr != "sluice: "+pipe+" is not a regular file: want a file, a folder, or - for standard output\n" {
		t.Errorf("%+v", r)
	}
	for _, args := range [][]string{{"get", "team/dir/a", dir}, {"get", "-r", "team/dir", dir}, {"sync", ":team/dir/", dir}} {
		if r := s.sluice(args...); r.code == 0 || !strings.Contains(r.stderr, "is not a regular file") {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is %v, %v", info, err)
	}
	if names := filesWith(t, dir, ""); len(names) != 1 {
		t.Errorf("files: %q", names)
	}
}
