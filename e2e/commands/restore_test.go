package commands

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// belongings are blobs, an upload, sessions and a channel that a test stores before a backup, and
// reads after its restore.
type belongings struct {
	blobs   map[string]string // digests by target
	upload  string            // with its first part
	session string            // of 1,000 chunksets; one is used
	channel *e2e.Channel
	bought  string // a session's id
}

// storeBelongings stores one thing of each kind.
func storeBelongings(s *e2e.Server) *belongings {
	s.T.Helper()
	b := &belongings{blobs: map[string]string{}}
	put := func(name string, data []byte) {
		s.Must(204, "PUT", e2e.BlobTarget("0x1", name), data)
		b.blobs[e2e.BlobTarget("0x1", name)] = e2e.Digest(data)
	}
	put("empty", nil)
	put("inline", e2e.Content(1, 1000))
	put("blocks", e2e.Content(2, 5<<20+7))
	put(strings.Repeat("é", 1000), e2e.Content(3, 100_000))
	put("overwritten", e2e.Content(4, 100_000))
	put("overwritten", e2e.Content(5, 100_001))
	s.Upload("0x1", "parts", e2e.Content(6, 20*40_000), 40_000)
	b.blobs[e2e.BlobTarget("0x1", "parts")] = e2e.Digest(e2e.Content(6, 20*40_000))
	put("deleted", e2e.Content(7, 100_000))
	s.Must(204, "DELETE", e2e.BlobTarget("0x1", "deleted"), nil)
	delete(b.blobs, e2e.BlobTarget("0x1", "deleted"))
	b.upload = s.Begin("0x1", "later", 50_000)
	s.Must(200, "PUT", e2e.PartTarget(b.upload, 0), e2e.Content(8, 50_000))
	b.session = s.Session()
	s.Must(200, "POST", "/v1/sessions/"+b.session+"/use", nil)
	b.channel = s.Open(s.Payer(1), 1000)
	b.bought = b.channel.Buy(10).SessionID
	return b
}

// Check reads and uses all of it on a server. It updates b, so the next server can be checked in
// turn.
func (b *belongings) Check(s *e2e.Server) {
	s.T.Helper()
	for target, want := range b.blobs {
		if r := s.Must(200, "GET", target, nil); e2e.Digest(r.Body) != want {
			s.T.Errorf("%s is %v, not the stored blob", target, r)
		}
	}
	e2e.CheckProblem(s.T, s.Do("GET", e2e.BlobTarget("0x1", "deleted"), nil), 404, "blob_not_found")
	s.Must(200, "PUT", e2e.PartTarget(b.upload, 1), e2e.Content(9, 50_000))
	s.Must(200, "POST", "/v1/multipart-uploads/"+b.upload+"/complete", nil)
	whole := slices.Concat(e2e.Content(8, 50_000), e2e.Content(9, 50_000))
	b.blobs[e2e.BlobTarget("0x1", "later")] = e2e.Digest(whole)
	if r := s.Must(200, "GET", e2e.BlobTarget("0x1", "later"), nil); e2e.Digest(r.Body) != e2e.Digest(whole) {
		s.T.Errorf("an upload that was begun before the backup is %v", r)
	}
	before := e2e.Number(s.T, s.Left(b.session))
	s.Must(200, "POST", "/v1/sessions/"+b.session+"/use", nil)
	if left := e2e.Number(s.T, s.Left(b.session)); before > 999 || left != before-1 {
		s.T.Errorf("the session has %d chunksets, want %d", left, before)
	}
	if left := s.Left(b.bought); left != "10" {
		s.T.Errorf("the session that was bought has %s chunksets, want 10", left)
	}
	moved := *b.channel
	moved.S = s
	e2e.CheckProblem(s.T, s.Do("POST", "/v1/sessions", e2e.PurchaseBody(s.T, moved.Again(), "")), 409, "micropayment_stale")
	moved.Buy(5)
	b.channel = &moved
	b.upload = s.Begin("0x1", "later", 50_000)
	s.Must(200, "PUT", e2e.PartTarget(b.upload, 0), e2e.Content(8, 50_000))
}

// TestRestoreKilled kills the command several times while it stores objects. The last run completes
// the instance.
// Invariant 119.
func TestRestoreKilled(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	b := storeBelongings(s)
	const more = 3000 // the files of a folder become objects about a thousand at a time
	for i := range more {
		data := e2e.Content(uint64(100+i), 33_000)
		target := e2e.BlobTarget("many", fmt.Sprint(i))
		s.Must(204, "PUT", target, data)
		b.blobs[target] = e2e.Digest(data)
	}
	s.Stop()
	place, target := filepath.Join(t.TempDir(), "place"), filepath.Join(t.TempDir(), "target")
	e2e.Prints(t, "backup", place, "--data", s.Data)
	files := func(pattern string) int {
		found, err := filepath.Glob(filepath.Join(target, "bytes", "??", pattern))
		testenv.OK(t, err)
		return len(found)
	}
	for _, stop := range []struct {
		end   syscall.Signal
		files string
		at    int
	}{{syscall.SIGKILL, "*", 1}, {syscall.SIGINT, "*", more / 4}, {syscall.SIGKILL, "??-*", more / 4}} {
		command := exec.Command(e2e.Sluice, "restore", place, "--to", target)
		log := &e2e.LogBuffer{}
		command.Stderr = log
		testenv.OK(t, command.Start())
		s.Eventually("no objects are restored", func() bool { return files(stop.files) >= stop.at })
		testenv.OK(t, command.Process.Signal(stop.end))
		if err := command.Wait(); err == nil {
			t.Fatalf("the command got %v at %d files and succeeded: %s", stop.end, stop.at, log)
		}
		if stop.end == syscall.SIGINT && !strings.HasSuffix(log.String(), "sluice: interrupted: run the same command again to continue\n") {
			t.Errorf("after an interrupt: %s", log)
		}
		if r := e2e.SluiceRuns(t, "serve", "--addr", "127.0.0.1:0", "--data", target); r.Code != 1 || !strings.Contains(r.Stderr, "unfinished copy") || !strings.Contains(r.Stderr, "sluice restore") {
			t.Fatalf("serve on an unfinished restore: exit code %d, %s", r.Code, r.Stderr)
		}
	}
	had := files("??-*")
	e2e.Restored(t, nil, place, "--to", target)
	if had < more/4 {
		t.Errorf("there were %d objects before the last run, want %d at least", had, more/4)
	}
	if left, err := os.Stat(filepath.Join(target, "bytes", "sluice-migration")); err == nil {
		t.Errorf("the marker of the restore is left: %v", left)
	}
	b.Check(e2e.Start(t, e2e.Options{Data: target}))
}
