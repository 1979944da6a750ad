package faults

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
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

var developmentBinary = flag.String("development", "", "binary of that version with which to create "+developmentArchive+" again")

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

// developmentPart is the number of bytes of each part, too many to be stored inline.
const developmentPart = 17_000

// TestDevelopmentIsCarriedOver restores the backup, starts a server on the instance, reads
// everything back, continues the upload, and spends and pays.
// Invariant 109.
func TestDevelopmentIsCarriedOver(t *testing.T) {
	t.Parallel()
	if *developmentBinary != "" {
		writeDevelopment(t, *developmentBinary)
	}
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

// writeDevelopment runs a binary on a new data folder, and packs a backup of it.
func writeDevelopment(t *testing.T, binary string) {
	t.Helper()
	const forever = "876000h"
	s := &e2e.Server{T: t, Data: filepath.Join(t.TempDir(), "data")}
	s.Run([]string{binary, "serve", "--addr", "127.0.0.1:0", "--data", s.Data, "--session-ttl", forever, "--channel-ttl", forever})
	p := development{Blobs: map[string]string{}, Described: e2e.BlobTarget("0x1", "described"), Deleted: e2e.BlobTarget("0x1", "deleted")}
	put := func(name string, data []byte, headers ...string) {
		s.Must(204, "PUT", e2e.BlobTarget("0x1", name), data, headers...)
		p.Blobs[e2e.BlobTarget("0x1", name)] = e2e.Digest(data)
	}
	put("empty", nil)
	put("inline", e2e.Content(1, 1000))
	put("object", e2e.Content(2, 20_000))
	put(strings.Repeat("é", 1000), e2e.Content(3, 100))
	put("overwritten", e2e.Content(4, 100))
	put("overwritten", e2e.Content(5, 101))
	put("described", e2e.Content(10, 100), "Blob-Meta-Color", "red")
	s.Must(200, "POST", p.Described, []byte(`{"copyTo": {"blobName": "copied"}}`))
	s.Must(200, "POST", e2e.BlobTarget("0x1", "object"), []byte(`{"copyTo": {"blobName": "shared"}, "replaceMetadata": true, "metadata": {"a": "b"}}`))
	p.Blobs[e2e.BlobTarget("0x1", "copied")] = p.Blobs[p.Described]
	p.Blobs[e2e.BlobTarget("0x1", "shared")] = p.Blobs[e2e.BlobTarget("0x1", "object")]
	put("deleted", e2e.Content(6, 100))
	s.Must(204, "DELETE", p.Deleted, nil)
	delete(p.Blobs, p.Deleted)
	parts := e2e.Content(7, 2*developmentPart+1)
	p.Completed = s.Begin("0x1", "parts", developmentPart)
	s.Parts(p.Completed, parts, developmentPart)
	s.Must(200, "POST", "/v1/multipart-uploads/"+p.Completed+"/complete", nil)
	p.Blobs[e2e.BlobTarget("0x1", "parts")] = e2e.Digest(parts)
	p.Open = s.Begin("0x1", "later", developmentPart)
	s.Must(200, "PUT", e2e.PartTarget(p.Open, 0), e2e.Content(8, developmentPart))
	p.Session = s.Session()
	s.Must(200, "POST", "/v1/sessions/"+p.Session+"/use", nil)
	c := s.Open(s.Payer(1), 1000)
	p.Bought = c.Buy(10).SessionID
	c.Settled()
	p.Channel.ID, p.Channel.Number, p.Channel.Sequence, p.Channel.Amount = c.ID, c.Number, c.Sequence, c.Amount
	secret, err := exec.Command(binary, "key", "create", "--data", s.Data, "--scopes", "read", "--all-accounts").Output()
	found := e2e.Credential.FindStringSubmatch(string(secret))
	if err != nil || found == nil {
		t.Fatalf("key create prints %q, %v", secret, err)
	}
	p.Key = found[1]
	s.Stop()
	place := filepath.Join(t.TempDir(), "place")
	testenv.OK(t, exec.Command(binary, "backup", "create", place, "--data", s.Data).Run())
	packDevelopment(t, place, p)
}

func packDevelopment(t *testing.T, place string, p development) {
	t.Helper()
	files := map[string][]byte{"contents.json": e2e.AsJSON(t, p)}
	err := filepath.WalkDir(place, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(place, name)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(relative)], err = os.ReadFile(name)
		return err
	})
	testenv.OK(t, err)
	var archive bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&archive, gzip.BestCompression)
	testenv.OK(t, err)
	packed := tar.NewWriter(zipped)
	for name, content := range files {
		testenv.OK(t, packed.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}))
		if _, err := packed.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	testenv.OK(t, errors.Join(packed.Close(), zipped.Close(), os.WriteFile(developmentArchive, archive.Bytes(), 0o600)))
}
