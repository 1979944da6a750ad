package faults

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"

	_ "modernc.org/sqlite"
)

// developmentArchive is a place with a backup that the last version before the first release has
// made, the commit 897e77e3. contents.json has what it contains.
const developmentArchive = "testdata/development.tar.gz"

// development is the instance that was backed up.
type development struct {
	Blobs     map[string]string // digests by target
	Described string            // target of a blob with metadata
	Deleted   string            // a deleted blob's target
	Completed string            // upload that was completed
	Open      string            // upload with its first part
	Session   string            // a session with one chunkset used
	Bought    string            // session of 10 chunksets
	Key       string            // an API key's id
	Channel   struct {
		ID                       string
		Number, Sequence, Amount uint64
	}
}

// developmentPart is the number of bytes of each part. The version of the archive stored them as
// objects.
const developmentPart = 17_000

// TestDevelopmentIsCarriedOver restores the backup, starts a server on the instance, reads
// everything back, continues the upload, and spends and pays.
// Invariant 109.
func TestDevelopmentIsCarriedOver(t *testing.T) {
	t.Parallel()
	place, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	p := unpackDevelopment(t, place)
	e2e.Prints(t, "restore", place, "--to", data)
	// The server keeps open uploads for a week.
	e2e.Execute(t, data, fmt.Sprintf(`UPDATE uploads SET touched = %d`, time.Now().UnixMicro()))
	// It counts no orphans as long as the time is in doubt, because the backup has an old one.
	if r := e2e.SluiceRuns(t, "check", "--data", data, "--read-bytes"); !strings.Contains(r.Stdout, "No damage was found") {
		t.Fatalf("check: exit code %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
	s := e2e.Start(t, e2e.Options{Data: data})
	testenv.Equal(t, s.Must(200, "GET", p.Described, nil).Header.Get("Blob-Meta-Color"), "red", "the metadata")
	for target, want := range p.Blobs {
		if r := s.Must(200, "GET", target, nil); e2e.Digest(r.Body) != want {
			t.Errorf("%s is %v, not the stored blob", target, r)
		}
	}
	e2e.CheckProblem(t, s.Do("GET", p.Deleted, nil), 404, "blob_not_found")
	s.Must(200, "PUT", e2e.PartTarget(p.Open, 1), e2e.Content(9, developmentPart))
	s.Must(200, "POST", "/v1/multipart-uploads/"+p.Open+"/complete", nil)
	whole := append(e2e.Content(8, developmentPart), e2e.Content(9, developmentPart)...)
	s.Holds(e2e.BlobTarget("0x1", "later"), whole)
	if left := s.Left(p.Session); left != "999" {
		t.Errorf("the session has %s chunksets, want 999", left)
	}
	s.Must(200, "POST", "/v1/sessions/"+p.Session+"/use", nil)
	if left := s.Left(p.Bought); left != "10" {
		t.Errorf("the session that was bought has %s chunksets, want 10", left)
	}
	c := &e2e.Channel{S: s, Payer: s.Payer(1), ID: p.Channel.ID, Number: p.Channel.Number, Sequence: p.Channel.Sequence, Amount: p.Channel.Amount}
	e2e.CheckProblem(t, s.Do("POST", "/v1/sessions", e2e.PurchaseBody(t, c.Again(), "")), 409, "micropayment_stale")
	if state := c.State(); state.Accepted != "10" || state.Settled != "10" {
		t.Errorf("the channel is %+v", state)
	}
	c.Buy(5)
	c.Settled()
	if state := e2e.KeyState(t, data, p.Key); state != "active" {
		t.Errorf("the key is %s", state)
	}
	if r := e2e.SluiceRuns(t, "check", "--books", "--data", data); r.Code != 0 {
		t.Errorf("audit: exit code %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// unpackDevelopment unpacks the archive.
func unpackDevelopment(t *testing.T, place string) (p development) {
	t.Helper()
	archive, err := os.Open(developmentArchive)
	testenv.OK(t, err)
	defer func() { _ = archive.Close() }()
	unzipped, err := gzip.NewReader(archive)
	testenv.OK(t, err)
	files := tar.NewReader(unzipped)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		testenv.OK(t, err)
		content, err := io.ReadAll(files)
		testenv.OK(t, err)
		if header.Name == "contents.json" {
			testenv.OK(t, json.Unmarshal(content, &p))
			continue
		}
		name := filepath.Join(place, filepath.FromSlash(header.Name))
		testenv.OK(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, content, 0o600)))
	}
	return p
}
