package s3

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestS3FS mounts a bucket, and again without the first mount's cache.
func TestS3FS(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.S3FS)
	s := start(t)
	c := newClient(t, s)
	c.write("passwd", "any:any")
	big := c.write("big", bytesOf(12<<20, 7))
	mount := `s3fs team mnt -o url="$S3" -o use_path_request_style -o passwd_file=passwd -o storage_class=standard_ia` + "\n"
	t.Cleanup(func() {
		if !t.Failed() {
			return // it has unmounted
		}
		out, err := exec.Command("fusermount", "-uz", filepath.Join(c.dir, "mnt")).CombinedOutput()
		t.Logf("unmounting: %v: %s", err, out)
	})
	got := c.sh(`aws s3 mb s3://team
		mkdir mnt
		` + mount + `mkdir -p mnt/dir/empty
		echo hello >mnt/dir/file
		chmod 640 mnt/dir/file
		ln -s file mnt/dir/link
		cp big mnt/big
		mv mnt/dir mnt/moved
		fusermount -u mnt
		` + mount + `cmp big mnt/big
		cat mnt/moved/link
		find mnt -mindepth 1 -printf '%M %P\n' | sort -k2
		rm -r mnt/moved
		find mnt -mindepth 1
		fusermount -u mnt`)
	testenv.Equal(t, got, "make_bucket: team\nhello\n-rw------- big\ndrwxr-xr-x moved\ndrwxr-xr-x moved/empty\n-rw-r----- moved/file\nlrwxrwxrwx moved/link\nmnt/big\n", "the files in the mount")
	same(t, s, "team", "big", big)
	s.Must(http.StatusNotFound, "GET", e2e.BlobTarget("team", "moved/file"), nil)
}

// TestOpenDAL runs a program over OpenDAL's library, which is there for Linux on amd64 only.
func TestOpenDAL(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.NPM)
	c := newClient(t, start(t))
	script := filepath.Join(testenv.Must(testenv.ClientDir())(t), "opendal.mjs")
	testenv.Equal(t, c.sh("node '"+script+"'"), "ok\n", "the program's output")
}
