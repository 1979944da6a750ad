package folder_test

import (
	"os"
	"path/filepath"
	"testing"

	"sluice/client/folder"
	"sluice/test/testenv"
)

// TestFilesWithoutTheirSizeAgain stores a folder in which each file has 0 bytes for stat. The
// second run sends nothing.
func TestFilesWithoutTheirSizeAgain(t *testing.T) {
	s := newService(t)
	const dir = "/proc/sys/fs/inotify"
	content := testenv.Must(os.ReadFile(filepath.Join(dir, "max_user_watches")))(t)
	first := testenv.Must(upload(t.Context(), dir, s.team(""), folder.Options{}))(t)
	testenv.Equal(t, first.Copied, len(filesOf(dir)), "the first run")
	testenv.Equal(t, testenv.Must(s.Head(t.Context(), "team", "max_user_watches"))(t).Size, int64(len(content)), "the size")
	wantRun(upload(t.Context(), dir, s.team(""), folder.Options{}))(t, "the second run", folder.Summary{Unchanged: first.Copied}, nil)
}
