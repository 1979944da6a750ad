//go:build unix

package commands

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestGetKeepsWhatIsNoFile checks with a pipe that the command replaces no device by a file.
func TestGetKeepsWhatIsNoFile(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	s.Must(204, "PUT", "/v1/blobs/team/dir/a", []byte("text"))
	dir := t.TempDir()
	pipe := filepath.Join(dir, "a")
	testenv.OK(t, syscall.Mkfifo(pipe, 0o600))
	if r := s.Sluice("get", "team/dir/a", pipe); r.Code != 2 || r.Stderr != "sluice: "+pipe+" is not a regular file: want a file, a folder, or - for standard output\n" {
		t.Errorf("%+v", r)
	}
	for _, args := range [][]string{{"get", "team/dir/a", dir}, {"get", "-r", "team/dir", dir}, {"sync", ":team/dir/", dir}} {
		if r := s.Sluice(args...); r.Code == 0 || !strings.Contains(r.Stderr, "is not a regular file") {
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
