package s3

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestPreserveAsRclone stores a file with its attributes by put and by rclone: the metadata are the
// same, and each restores the other's file.
func TestPreserveAsRclone(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := newClient(t, s)
	c.write("file", "text")
	path, modified := filepath.Join(c.dir, "file"), time.Unix(1354040105, 120000000)
	testenv.OK(t, errors.Join(os.Chmod(path, 0o640), os.Chtimes(path, modified, modified)))
	c.sh(`rclone -q --metadata copyto file :s3:team/theirs`)
	if r := s.Sluice("put", "-p", path, "team/ours"); r.Code != 0 {
		t.Fatalf("put: %s", r.Stderr)
	}
	attributes := func(name string) string {
		h := s.Must(http.StatusOK, "HEAD", e2e.BlobTarget("team", name), nil).Header
		return fmt.Sprint(h["Blob-Meta-Mtime"], h["Blob-Meta-Mode"])
	}
	testenv.Equal(t, attributes("ours"), attributes("theirs"), "the metadata")
	testenv.Equal(t, attributes("ours"), "[1354040105.12] [100640]", "the metadata")
	c.sh(`rclone -q --metadata copyto :s3:team/ours by-rclone`)
	if r := s.Sluice("get", "-p", "team/theirs", filepath.Join(c.dir, "by-sluice")); r.Code != 0 {
		t.Fatalf("get: %s", r.Stderr)
	}
	for _, name := range []string{"by-rclone", "by-sluice"} {
		info := testenv.Must(os.Stat(filepath.Join(c.dir, name)))(t)
		testenv.Equal(t, fmt.Sprint(info.ModTime().Equal(modified), info.Mode()), "true -rw-r-----", "%s", name)
	}
}
