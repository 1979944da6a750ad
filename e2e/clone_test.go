package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/internal/testenv"
)

// belongings are what a test stores in a server before the clone, and reads from the clone.
type belongings struct {
	blobs   map[string]string // digests by target
	upload  string            // with its first part
	session string            // of 1,000 chunksets; one is used
	channel *channel
	bought  string // a session's id
}

// storeBelongings stores one thing of each kind.
func (s *server) storeBelongings() *belongings {
	s.t.Helper()
	b := &belongings{blobs: map[string]string{}}
	put := func(name string, data []byte) {
		s.must(204, "PUT", blobTarget("0x1", name), data)
		b.blobs[blobTarget("0x1", name)] = digest(data)
	}
	put("empty", nil)
	put("inline", content(1, 1000))
	put("blocks", content(2, 5<<20+7))
	put(strings.Repeat("é", 1000), content(3, 100_000))
	put("overwritten", content(4, 100_000))
	put("overwritten", content(5, 100_001))
	s.upload("0x1", "parts", content(6, 20*30_000), 30_000)
	b.blobs[blobTarget("0x1", "parts")] = digest(content(6, 20*30_000))
	put("deleted", content(7, 100_000))
	s.must(204, "DELETE", blobTarget("0x1", "deleted"), nil)
	delete(b.blobs, blobTarget("0x1", "deleted"))
	b.upload = s.begin("0x1", "later", 50_000)
	s.must(200, "PUT", partTarget(b.upload, 0), content(8, 50_000))
	b.session = s.session()
	s.must(200, "POST", "/v1/sessions/"+b.session+"/use", nil)
	b.channel = s.open(s.payer(1), 1000)
	b.bought = b.channel.buy(10).SessionID
	return b
}

// check reads and uses all of it on a server. It updates b, so the next server can be checked in
// turn.
func (b *belongings) check(s *server) {
	s.t.Helper()
	for target, want := range b.blobs {
		if r := s.must(200, "GET", target, nil); digest(r.body) != want {
			s.t.Errorf("%s is %v, not what was stored", target, r)
		}
	}
	checkProblem(s.t, s.do("GET", blobTarget("0x1", "deleted"), nil), 404, "blob_not_found")
	s.must(200, "PUT", partTarget(b.upload, 1), content(9, 50_000))
	s.must(200, "POST", "/v1/multipart-uploads/"+b.upload+"/complete", nil)
	whole := slices.Concat(content(8, 50_000), content(9, 50_000))
	b.blobs[blobTarget("0x1", "later")] = digest(whole)
	if r := s.must(200, "GET", blobTarget("0x1", "later"), nil); digest(r.body) != digest(whole) {
		s.t.Errorf("an upload that was begun before the clone is %v", r)
	}
	before := number(s.t, s.left(b.session))
	s.must(200, "POST", "/v1/sessions/"+b.session+"/use", nil)
	if left := number(s.t, s.left(b.session)); before > 999 || left != before-1 {
		s.t.Errorf("the session has %d chunksets, want %d", left, before)
	}
	if left := s.left(b.bought); left != "10" {
		s.t.Errorf("the session that was bought has %s chunksets, want 10", left)
	}
	moved := *b.channel
	moved.s = s
	checkProblem(s.t, s.do("POST", "/v1/sessions", purchaseBody(s.t, moved.again(), "")), 409, "micropayment_stale")
	moved.buy(5)
	b.channel = &moved
	b.upload = s.begin("0x1", "later", 50_000)
	s.must(200, "PUT", partTarget(b.upload, 0), content(8, 50_000))
}

// runClone runs the command, which must succeed and print its result on standard output.
func runClone(t *testing.T, args ...string) {
	t.Helper()
	r := sluiceRuns(t, append([]string{"clone"}, args...)...)
	if r.code != 0 || !strings.Contains(r.stdout, "Cloned the instance ") {
		t.Fatalf("clone %q: exit code %d, %q\n%s", args, r.code, r.stdout, r.stderr)
	}
}

// TestCloneToNodesAndBack clones an instance from a folder to PostgreSQL and an object store, and
// back to another folder.
func TestCloneToNodesAndBack(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", testenv.S3AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", testenv.S3SecretKey)
	c := newCluster(t, options{})
	places := c.places(c.database)
	meta, bytes := places[1], places[3]
	first := start(t, options{})
	b := first.storeBelongings()
	if r := sluiceRuns(t, "clone", "--from", first.data, "--to-meta", meta, "--to-bytes", bytes); r.code != 1 || !strings.Contains(r.stderr, "in use") {
		t.Errorf("of a running server: exit code %d, %s", r.code, r.stderr)
	}
	first.stop()
	runClone(t, "--from", first.data, "--to-meta", meta, "--to-bytes", bytes)

	c.start(1)
	b.check(c.nodes[0])
	back := filepath.Join(t.TempDir(), "back")
	r := sluiceRuns(t, "clone", "--from-meta", meta, "--from-bytes", bytes, "--to", back, "--quiet")
	if r.code != 1 || !strings.Contains(r.stderr, "the source: a node, or another clone command, is running on it") {
		t.Errorf("of a running node: exit code %d, %s", r.code, r.stderr)
	}
	c.nodes[0].stop()
	runClone(t, "--from-meta", meta, "--from-bytes", bytes, "--to", back)
	last := start(t, options{data: back})
	b.check(last)
	last.stop()
	if r := sluiceRuns(t, "audit", "--data", back); r.code != 0 {
		t.Errorf("audit: exit code %d, %s%s", r.code, r.stdout, r.stderr)
	}
}

// TestCloneKilled kills the command several times during the copy. The last run completes the
// clone.
func TestCloneKilled(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	b := s.storeBelongings()
	const more = 300
	for i := range more {
		data := content(uint64(100+i), 17_000)
		target := blobTarget("many", fmt.Sprint(i))
		s.must(204, "PUT", target, data)
		b.blobs[target] = digest(data)
	}
	s.stop()
	target := filepath.Join(t.TempDir(), "target")
	objects := func() int {
		found, err := filepath.Glob(filepath.Join(target, "bytes", "??", "??-*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	for i, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT, syscall.SIGKILL} {
		at := 1 + i*more/4
		command := exec.Command(sluice, "clone", "--from", s.data, "--to", target)
		log := &logBuffer{}
		command.Stderr = log
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		s.eventually("no objects are copied", func() bool { return objects() >= at })
		if err := command.Process.Signal(end); err != nil {
			t.Fatal(err)
		}
		if err := command.Wait(); err == nil {
			t.Fatalf("the command got %v at %d objects and succeeded: %s", end, at, log)
		}
		if end == syscall.SIGINT && !strings.HasSuffix(log.String(), "sluice: interrupted: run the same command again to resume\n") {
			t.Errorf("after an interrupt: %s", log)
		}
		if r := sluiceRuns(t, "serve", "--addr", "127.0.0.1:0", "--data", target); r.code != 1 || !strings.Contains(r.stderr, "unfinished copy") || !strings.Contains(r.stderr, "sluice clone") {
			t.Fatalf("serve on an unfinished clone: exit code %d, %s", r.code, r.stderr)
		}
	}
	had := objects()
	runClone(t, "--from", s.data, "--to", target)
	if had < more/2 {
		t.Errorf("there were %d objects before the last run, want %d at least", had, more/2)
	}
	if left, err := os.Stat(filepath.Join(target, "bytes", "sluice-migration")); err == nil {
		t.Errorf("the marker of the clone is left: %v", left)
	}
	b.check(start(t, options{data: target}))
}
