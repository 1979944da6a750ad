package s3

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// same fails the test unless the native interface reads these bytes.
func same(t *testing.T, s *e2e.Server, account, name, want string) e2e.Response {
	t.Helper()
	res := s.Must(http.StatusOK, "GET", e2e.BlobTarget(account, name), nil)
	if string(res.Body) != want {
		t.Errorf("the native interface reads %d bytes of %s/%s, want %d", len(res.Body), account, name, len(want))
	}
	return res
}

// TestAWS uses Amazon's command line: its copies, moves, lists and removals agree with the native
// interface.
// Invariant 188.
func TestAWS(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := newClient(t, s)
	small, big := c.write("tree/a b+c%.txt", "small"), c.write("tree/deep/big", bytesOf(20<<20, 1))
	c.write("tree/empty", "")
	c.write("tree/é/ü", "unicode")
	c.sh(`aws s3 cp --quiet --recursive tree s3://team/tree --metadata color=blue --cache-control max-age=5`)
	res := same(t, s, "team", "tree/a b+c%.txt", small)
	if res.Header.Get("Blob-Meta-Color") != "blue" || res.Header.Get("Cache-Control") != "max-age=5" || res.Header.Get("Content-Type") != "text/plain" {
		t.Errorf("the native interface has %v", res.Header)
	}
	same(t, s, "team", "tree/deep/big", big)
	same(t, s, "team", "tree/empty", "")
	same(t, s, "team", "tree/é/ü", "unicode")
	s.Must(http.StatusNoContent, "PUT", e2e.BlobTarget("team", "native"), []byte("native"))
	listed := c.sh(`aws s3 ls --recursive s3://team/ | awk '{print $3, $4, $5}' | sort; aws s3 ls s3://team/; aws s3 ls`)
	for _, want := range []string{"20971520 tree/deep/big", "6 native", "0 tree/empty", "PRE tree/", "team"} {
		if !strings.Contains(listed, want) {
			t.Errorf("the list lacks %q:\n%s", want, listed)
		}
	}
	c.sh(`aws s3 sync --quiet s3://team/tree copy && diff -r tree copy
		aws s3 mv --quiet s3://team/tree/deep/big s3://other/big
		aws s3 cp --quiet s3://other/big - | cmp - tree/deep/big
		aws s3 cp --quiet s3://team/native fetched
		curl -sf "$(aws s3 presign s3://team/native)" | cmp - fetched
		aws s3 rm --quiet --recursive s3://team/tree`)
	testenv.Equal(t, c.read("fetched"), "native", "the blob that the native interface has stored")
	s.Must(http.StatusNotFound, "GET", e2e.BlobTarget("team", "tree/empty"), nil)
	sum := sha256.Sum256([]byte(c.write("checked", "checked")))
	got := c.sh(`aws s3api put-object --bucket team --key checked --body checked --checksum-algorithm SHA256 --query ChecksumSHA256
		aws s3api get-object-attributes --bucket team --key checked --object-attributes ETag ObjectSize --query ObjectSize
		aws s3api list-objects-v2 --bucket team --max-items 1 --query 'Contents[0].Key'
		aws s3api delete-objects --bucket team --delete 'Objects=[{Key=checked},{Key=native}]' --query 'length(Deleted)'`)
	testenv.Equal(t, strings.Join(strings.Fields(got), " "), strconv.Quote(base64.StdEncoding.EncodeToString(sum[:]))+` 7 "checked" 2`, "the output of aws")
	got = c.sh(`! aws s3 ls s3://made 2>errors; grep -o NoSuchBucket errors
		aws s3 mb s3://made
		aws s3api put-object --bucket made --key dir/ --body checked --storage-class STANDARD_IA --content-encoding identity --tagging 'a=1&b=2' --query ServerSideEncryption
		aws s3api head-object --bucket made --key dir/ --query '[ContentEncoding, StorageClass]' --output text
		aws s3api put-object-tagging --bucket made --key dir/ --tagging 'TagSet=[{Key=c,Value=3}]'
		aws s3api get-object-tagging --bucket made --key dir/ --query 'TagSet[].[Key, Value]' --output text
		! aws s3 rb s3://made 2>errors; grep -o BucketNotEmpty errors
		aws s3 rb --force s3://made | tail -1`)
	testenv.Equal(t, strings.Join(strings.Fields(got), " "), "NoSuchBucket make_bucket: made null identity None c 3 BucketNotEmpty remove_bucket: made", "the output of aws")
}

// TestRclone copies, syncs, checks, moves and purges.
// Invariant 188.
func TestRclone(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := newClient(t, s)
	big := c.write("tree/big", bytesOf(12<<20, 2))
	for i := range 20 {
		c.write(fmt.Sprintf("tree/folder %d/file+%d", i%3, i), fmt.Sprint("file ", i))
	}
	c.sh(`rclone -q --s3-chunk-size 5M --s3-upload-cutoff 6M sync tree :s3:team/tree
		rclone -q check --download tree :s3:team/tree
		rclone -q mkdir :s3:team/empty`)
	same(t, s, "team", "tree/big", big)
	same(t, s, "team", "tree/folder 1/file+7", "file 7")
	testenv.OK(t, os.Remove(filepath.Join(c.dir, "tree", "folder 1", "file+7")))
	c.write("tree/folder 1/file+4", "replaced")
	got := c.sh(`rclone -q sync tree :s3:team/tree
		rclone -q check tree :s3:team/tree 2>&1
		rclone -q copy :s3:team/tree back && diff -r tree back
		rclone cat --offset 5 --count 3 ":s3:team/tree/folder 1/file+4"; echo
		rclone lsf --dirs-only :s3:team/tree
		rclone -q moveto ":s3:team/tree/folder 1/file+4" :s3:other/moved
		rclone cat :s3:other/moved; echo
		rclone -q purge :s3:team/tree
		rclone lsf -R :s3:team
		rclone -q mkdir :s3:made
		rclone -q rmdir :s3:made
		rclone -q --s3-storage-class GLACIER_IR copyto "tree/folder 1/file+4" :s3:made/k
		rclone lsf --format pT :s3:made
		rclone -q purge :s3:made
		! rclone -q lsf :s3:made 2>errors; grep -c "directory not found" errors`)
	testenv.Equal(t, got, "ced\nfolder 0/\nfolder 1/\nfolder 2/\nreplaced\nk;STANDARD\n2\n", "the output of rclone")
}

// TestS3cmd puts, lists, copies, syncs and removes.
// Invariant 188.
func TestS3cmd(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := newClient(t, s)
	c.write("tree/a", "first")
	c.write("tree/b/c", bytesOf(16<<20, 3))
	c.write("s3cfg", "[default]\naccess_key = any\nsecret_key = any\nuse_https = False\nhost_base = "+strings.TrimPrefix(s.S3, "http://")+"\nhost_bucket = "+strings.TrimPrefix(s.S3, "http://")+"\n")
	got := c.sh(`s3() { s3cmd --no-progress -c s3cfg "$@"; }
		! s3 -q ls s3://team 2>errors; grep -o NoSuchBucket errors
		s3 -q mb s3://team
		s3 -q sync tree/ s3://team/tree/
		s3 ls -r s3://team | awk '{print $3, $4}'
		s3 info s3://team/tree/a | grep -c -E "File size|Last mod"
		s3 -q cp s3://team/tree/a s3://team/copied
		s3 -q get s3://team/copied -
		echo; s3 -q sync s3://team/tree/ back/ && diff -r tree back
		s3 -q del -r -f s3://team/tree
		s3 ls -r s3://team | awk '{print $3, $4}'
		s3 -q put --storage-class=STANDARD_IA --add-header=Content-Encoding:identity --add-header=x-amz-tagging:a=1 tree/a s3://made/k
		s3 info s3://made/k | grep Storage
		! s3 rb s3://made 2>errors; grep -o BucketNotEmpty errors
		s3 -q rb -r -f s3://made
		s3 ls | awk '{print $3}'`)
	same(t, s, "team", "copied", "first")
	testenv.Equal(t, got, "NoSuchBucket\n5 s3://team/tree/a\n16777216 s3://team/tree/b/c\n2\nfirst\n5 s3://team/copied\n   Storage:   STANDARD\nBucketNotEmpty\ns3://team\n", "the output of s3cmd")
}

// TestRestic makes backups, checks all their bytes, restores one and forgets another.
// Invariant 188.
func TestRestic(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := newClient(t, s)
	for i := range 30 {
		c.write(fmt.Sprintf("tree/%d/%d", i%4, i), bytesOf(100_000*(i%5), uint64(i)))
	}
	c.sh(`restic -q -o s3.storage-class=REDUCED_REDUNDANCY init
		restic -q -o s3.storage-class=REDUCED_REDUNDANCY backup tree
		echo changed > tree/1/1
		restic -q backup tree
		restic -q check --read-data
		restic -q restore latest --target back && diff -r tree back/tree
		restic -q forget --keep-last 1 --prune
		restic -q check --read-data`)
	listed := s.Must(http.StatusOK, "GET", "/v1/blobs/team?prefix=restic/&limit=10", nil)
	if !strings.Contains(string(listed.Body), "restic/config") {
		t.Errorf("the native interface lists %s", listed.Body)
	}
}

// TestResticWithNarrowKey makes and checks backups with a key that creates everywhere and deletes
// locks only. It can remove nothing else.
// Invariant 193.
func TestResticWithNarrowKey(t *testing.T) {
	t.Parallel()
	h := startHosted(t, "--reads", "key")
	id, secret := h.key("create", "--grant", "read,create@team/restic/", "--grant", "write@team/restic/locks/")
	c := newClient(t, h.Server)
	c.environ = append(c.environ, "AWS_ACCESS_KEY_ID="+id, "AWS_SECRET_ACCESS_KEY="+secret)
	c.write("tree/1", bytesOf(100_000, 1))
	got := c.sh(`restic -q init
		restic -q backup tree
		echo changed > tree/2
		restic -q backup tree
		restic -q check --read-data
		restic -q restore latest --target back && diff -r tree back/tree
		! aws s3 rm --only-show-errors s3://team/restic/config 2>errors; grep -o AccessDenied errors
		restic -q snapshots --json | grep -o '"short_id"' | wc -l
		restic -q list locks | wc -l`)
	testenv.Equal(t, strings.Join(strings.Fields(got), " "), "AccessDenied 2 0", "a refusal, the backups and the locks")
}

// TestVersionsByClients keeps, lists, reads, restores and removes versions by the clients that know
// them.
// Invariant 208.
func TestVersionsByClients(t *testing.T) {
	t.Parallel()
	h := startHosted(t, "--reads", "key")
	c := newClient(t, h.Server)
	c.environ = append(c.environ, "AWS_ACCESS_KEY_ID="+h.admin, "AWS_SECRET_ACCESS_KEY="+h.secret)
	c.write("one", "first")
	c.write("two", "second")
	got := c.sh(`list() { aws s3api list-object-versions --bucket team --output text "$@"; }
		aws s3 mb s3://team >made
		aws s3api put-bucket-versioning --bucket team --versioning-configuration Status=Enabled
		aws s3api get-bucket-versioning --bucket team --query Status --output text
		for f in one two; do aws s3 cp --quiet $f s3://team/dir/f; done
		old=$(list --query 'Versions[?!IsLatest].VersionId')
		aws s3api get-object --bucket team --key dir/f --version-id $old fetched --query ContentLength && cmp one fetched
		rclone -q copy --s3-versions :s3:team back && cat back/dir/f-v*; echo
		aws s3 rm --quiet --recursive s3://team
		aws s3 ls --recursive s3://team | wc -l
		mark=$(list --query 'DeleteMarkers[0].VersionId')
		aws s3api delete-object --bucket team --key dir/f --version-id $mark --query DeleteMarker
		aws s3 cp --quiet s3://team/dir/f -; echo
		aws s3api copy-object --bucket team --key dir/f --copy-source "team/dir/f?versionId=$old" --query CopySourceVersionId --output text | grep -c $old
		aws s3 cp --quiet s3://team/dir/f -; echo
		rclone -q backend cleanup-hidden :s3:team
		list --query 'length(Versions)'
		! aws s3 rb s3://team 2>errors; grep -o BucketNotEmpty errors
		rclone -q purge :s3:team/dir; rclone -q backend cleanup-hidden :s3:team
		aws s3api put-bucket-versioning --bucket team --versioning-configuration Status=Suspended`)
	testenv.Equal(t, strings.Join(strings.Fields(got), " "), "Enabled 5 first 0 true second 1 first 1 BucketNotEmpty", "the output of the clients")
}

// TestSDKs runs programs over the SDKs for Python, which signs for a hosted service, and for
// JavaScript.
// Invariant 188.
func TestSDKs(t *testing.T) {
	t.Run("boto3", func(t *testing.T) {
		t.Parallel()
		h := startHosted(t, "--reads", "public")
		c := newClient(t, h.Server)
		c.environ = append(c.environ, "AWS_ACCESS_KEY_ID="+h.admin, "AWS_SECRET_ACCESS_KEY="+h.secret)
		script := testenv.Must(filepath.Abs("testdata/sdk.py"))(t)
		testenv.Equal(t, c.sh("/usr/bin/python3 '"+script+"'"), "ok\n", "the program's output")
		same(t, h.Server, "team", "uneven", strings.Repeat("a", 5<<20)+strings.Repeat("b", 6<<20)+"end")
	})
	t.Run("JavaScript", func(t *testing.T) {
		t.Parallel()
		testenv.Require(t, testenv.NPM)
		s := start(t)
		c := newClient(t, s)
		c.environ = append(c.environ, "AWS_ENDPOINT_URL_S3="+s.S3, "AWS_REGION=us-east-1") // as on the first screen
		script := filepath.Join(testenv.Must(testenv.ClientDir())(t), "s3.mjs")
		testenv.Equal(t, c.sh("node '"+script+"'"), "ok\n", "the program's output")
		res := same(t, s, "team", "checked", "checked by default")
		testenv.Equal(t, res.Header.Get("Blob-Meta-Color"), "blue", "the metadata")
	})
}

// TestOperationsOfTheSDK sends each operation in the model of Amazon's SDK for JavaScript.
// Invariant 184.
func TestOperationsOfTheSDK(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.NPM)
	h := startHosted(t, "--reads", "key")
	c := newClient(t, h.Server)
	c.environ = append(c.environ, "AWS_ACCESS_KEY_ID="+h.admin, "AWS_SECRET_ACCESS_KEY="+h.secret)
	script := filepath.Join(testenv.Must(testenv.ClientDir())(t), "s3operations.mjs")
	printed := c.sh("node '" + script + "'")
	t.Log(printed)
	if !strings.HasSuffix(printed, "ok\n") {
		t.Errorf("the program prints %q", printed)
	}
}
