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
	"sluice/internal/testenv"

	_ "modernc.org/sqlite"
)

// previousArchive is a data folder that the previous version has written. previous.json lists its
// blobs, uploads and sessions. Create a new one after each release:
//
//	go test ./e2e -run TestDataFolderOfThePreviousVersion -previous BINARY
const previousArchive = "testdata/previous.tar.gz"

var previousBinary = flag.String("previous", "", "binary of the previous version with which to create "+previousArchive+" again")

// previous lists the archive's blobs, uploads and sessions.
type previous struct {
	Blobs     map[string]string // digests by target
	Deleted   string            // a deleted blob's target
	Completed string            // upload that was completed
	Open      string            // upload with its first part
	Session   string            // a session with one chunkset used
	Bought    string            // session of 10 chunksets
	Repeated  string            // session that was created with the idempotency key "k"
	Key       string            // an API key's id
	Channel   struct {
		ID                       string
		Number, Sequence, Amount uint64
	}
}

const (
	previousPart = 17_000 // bytes of each part, too many to be stored inline
	previousKey  = "Idempotency-Key"
)

// TestDataFolderOfThePreviousVersion starts the server on a data folder that the previous version
// has written, and reads everything back.
func TestDataFolderOfThePreviousVersion(t *testing.T) {
	t.Parallel()
	if *previousBinary != "" {
		writePrevious(t, *previousBinary)
	}
	data := filepath.Join(t.TempDir(), "data")
	p := unpackPrevious(t, data)
	s := e2e.Start(t, e2e.Options{Data: data})
	for target, want := range p.Blobs {
		if r := s.Must(200, "GET", target, nil); e2e.Digest(r.Body) != want {
			t.Errorf("%s is %v, not the stored blob", target, r)
		}
	}
	e2e.CheckProblem(t, s.Do("GET", p.Deleted, nil), 404, "blob_not_found")
	s.Must(200, "POST", "/v1/multipart-uploads/"+p.Completed+"/complete", nil)
	s.Must(200, "PUT", e2e.PartTarget(p.Open, 1), e2e.Content(9, previousPart))
	s.Must(200, "POST", "/v1/multipart-uploads/"+p.Open+"/complete", nil)
	whole := append(e2e.Content(8, previousPart), e2e.Content(9, previousPart)...)
	s.Holds(e2e.BlobTarget("0x1", "later"), whole)
	if left := s.Left(p.Session); left != "999" {
		t.Errorf("the session has %s chunksets, want 999", left)
	}
	s.Must(200, "POST", "/v1/sessions/"+p.Session+"/use", nil)
	if left := s.Left(p.Bought); left != "10" {
		t.Errorf("the session that was bought has %s chunksets, want 10", left)
	}
	if r := s.Must(201, "POST", "/v1/sessions", []byte("{}"), previousKey, "k"); e2e.Text(t, r.Object(t), "sessionId") != p.Repeated {
		t.Errorf("the repeated request is answered with %v, want the session %s", r, p.Repeated)
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

// TestUnfinishedCopyOfThePreviousVersion checks that the server recognizes the markers that the
// previous version put on a target: it does not serve the target, and a restore of that instance
// can complete it.
func TestUnfinishedCopyOfThePreviousVersion(t *testing.T) {
	t.Parallel()
	source, target := filepath.Join(t.TempDir(), "source"), filepath.Join(t.TempDir(), "target")
	p := unpackPrevious(t, source)
	s := e2e.Start(t, e2e.Options{Data: source})
	s.Stop()
	id, err := os.ReadFile(filepath.Join(source, "bytes", "sluice-instance"))
	testenv.OK(t, err)
	e2e.Start(t, e2e.Options{Data: target}).Stop() // for an empty database
	e2e.Execute(t, target, `DELETE FROM facts`, `INSERT INTO facts VALUES (CAST('instance' AS BLOB), CAST('copy of `+string(id)+`' AS BLOB))`)
	from, to := filepath.Join(target, "bytes", "sluice-instance"), filepath.Join(target, "bytes", "sluice-migration")
	testenv.OK(t, errors.Join(os.Rename(from, to), os.WriteFile(to, id, 0o600)))
	if r := e2e.SluiceRuns(t, "serve", "--addr", "127.0.0.1:0", "--data", target); r.Code != 1 || !strings.Contains(r.Stderr, "unfinished copy") {
		t.Fatalf("serve on an unfinished copy: exit code %d, %s", r.Code, r.Stderr)
	}
	place := filepath.Join(t.TempDir(), "place")
	e2e.Prints(t, "backup", place, "--data", source)
	e2e.Restored(t, nil, place, "--to", target)
	s = e2e.Start(t, e2e.Options{Data: target})
	for name, want := range p.Blobs {
		if r := s.Must(200, "GET", name, nil); e2e.Digest(r.Body) != want {
			t.Errorf("%s is %v, not the stored blob", name, r)
		}
	}
}

// unpackPrevious unpacks the archive. The server keeps uploads and idempotency keys for hours or
// days, so it sets their times to now.
func unpackPrevious(t *testing.T, data string) (p previous) {
	t.Helper()
	archive, err := os.Open(previousArchive)
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
		if header.Name == "previous.json" {
			testenv.OK(t, json.Unmarshal(content, &p))
			continue
		}
		name := filepath.Join(data, filepath.FromSlash(header.Name))
		testenv.OK(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, content, 0o600)))
	}
	now := time.Now().UnixMicro()
	e2e.Execute(t, data,
		fmt.Sprintf(`UPDATE uploads SET touched = %d`, now),
		fmt.Sprintf(`UPDATE uploads SET ended = %d WHERE ended IS NOT NULL`, now),
		fmt.Sprintf(`UPDATE idempotency SET created = %d`, now))
	return p
}

// writePrevious runs a binary on a new data folder, and packs the folder.
func writePrevious(t *testing.T, binary string) {
	t.Helper()
	const forever = "876000h"
	s := &e2e.Server{T: t, Data: filepath.Join(t.TempDir(), "data")}
	s.Run([]string{binary, "serve", "--addr", "127.0.0.1:0", "--data", s.Data, "--session-ttl", forever, "--channel-ttl", forever})
	p := previous{Blobs: map[string]string{}, Deleted: e2e.BlobTarget("0x1", "deleted")}
	put := func(name string, data []byte) {
		s.Must(204, "PUT", e2e.BlobTarget("0x1", name), data)
		p.Blobs[e2e.BlobTarget("0x1", name)] = e2e.Digest(data)
	}
	put("empty", nil)
	put("inline", e2e.Content(1, 1000))
	put("object", e2e.Content(2, 20_000))
	put(strings.Repeat("é", 1000), e2e.Content(3, 100))
	put("overwritten", e2e.Content(4, 100))
	put("overwritten", e2e.Content(5, 101))
	put("deleted", e2e.Content(6, 100))
	s.Must(204, "DELETE", p.Deleted, nil)
	delete(p.Blobs, p.Deleted)
	parts := e2e.Content(7, 2*previousPart+1)
	p.Completed = s.Begin("0x1", "parts", previousPart)
	s.Parts(p.Completed, parts, previousPart)
	s.Must(200, "POST", "/v1/multipart-uploads/"+p.Completed+"/complete", nil)
	p.Blobs[e2e.BlobTarget("0x1", "parts")] = e2e.Digest(parts)
	p.Open = s.Begin("0x1", "later", previousPart)
	s.Must(200, "PUT", e2e.PartTarget(p.Open, 0), e2e.Content(8, previousPart))
	p.Session = s.Session()
	s.Must(200, "POST", "/v1/sessions/"+p.Session+"/use", nil)
	p.Repeated = e2e.Text(t, s.Must(201, "POST", "/v1/sessions", []byte("{}"), previousKey, "k").Object(t), "sessionId")
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
	packPrevious(t, s.Data, p)
}

func packPrevious(t *testing.T, data string, p previous) {
	t.Helper()
	files := map[string][]byte{"previous.json": e2e.AsJSON(t, p)}
	err := filepath.WalkDir(data, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "ballast" {
			return err
		}
		relative, err := filepath.Rel(data, name)
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
	testenv.OK(t, errors.Join(packed.Close(), zipped.Close(), os.WriteFile(previousArchive, archive.Bytes(), 0o600)))
}
