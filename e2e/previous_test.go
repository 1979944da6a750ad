package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"database/sql"
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

	_ "modernc.org/sqlite"
)

// previousArchive is a data folder that the previous version has written. previous.json says what
// is stored in it. Create a new one after each release:
//
//	go test ./e2e -run TestDataFolderOfThePreviousVersion -previous BINARY
const previousArchive = "testdata/previous.tar.gz"

var previousBinary = flag.String("previous", "", "binary of the previous version with which to create "+previousArchive+" again")

// previous is what the archive contains.
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
	s := start(t, options{data: data})
	for target, want := range p.Blobs {
		if r := s.must(200, "GET", target, nil); digest(r.body) != want {
			t.Errorf("%s is %v, not what was stored", target, r)
		}
	}
	checkProblem(t, s.do("GET", p.Deleted, nil), 404, "blob_not_found")
	s.must(200, "POST", "/v1/multipart-uploads/"+p.Completed+"/complete", nil)
	s.must(200, "PUT", partTarget(p.Open, 1), content(9, previousPart))
	s.must(200, "POST", "/v1/multipart-uploads/"+p.Open+"/complete", nil)
	whole := append(content(8, previousPart), content(9, previousPart)...)
	if r := s.must(200, "GET", blobTarget("0x1", "later"), nil); !bytes.Equal(r.body, whole) {
		t.Errorf("the completed upload is %v", r)
	}
	if left := s.left(p.Session); left != "999" {
		t.Errorf("the session has %s chunksets, want 999", left)
	}
	s.must(200, "POST", "/v1/sessions/"+p.Session+"/use", nil)
	if left := s.left(p.Bought); left != "10" {
		t.Errorf("the session that was bought has %s chunksets, want 10", left)
	}
	if r := s.must(201, "POST", "/v1/sessions", []byte("{}"), previousKey, "k"); text(t, r.object(t), "sessionId") != p.Repeated {
		t.Errorf("the repeated request is answered with %v, want the session %s", r, p.Repeated)
	}
	c := &channel{s: s, payer: s.payer(1), id: p.Channel.ID, number: p.Channel.Number, sequence: p.Channel.Sequence, amount: p.Channel.Amount}
	checkProblem(t, s.do("POST", "/v1/sessions", purchaseBody(t, c.again(), "")), 409, "micropayment_stale")
	if state := c.state(); state.Accepted != "10" || state.Settled != "10" {
		t.Errorf("the channel is %+v", state)
	}
	c.buy(5)
	c.settled()
	if state := keyState(t, data, p.Key); state != "active" {
		t.Errorf("the key is %s", state)
	}
	if r := sluiceRuns(t, "audit", "--data", data); r.code != 0 {
		t.Errorf("audit: exit code %d, %s%s", r.code, r.stdout, r.stderr)
	}
}

// TestUnfinishedCopyOfThePreviousVersion checks that the server recognizes the markers that the
// previous version put on a target: it does not serve the target, and a clone can complete it.
func TestUnfinishedCopyOfThePreviousVersion(t *testing.T) {
	t.Parallel()
	source, target := filepath.Join(t.TempDir(), "source"), filepath.Join(t.TempDir(), "target")
	p := unpackPrevious(t, source)
	s := start(t, options{data: source})
	s.stop()
	id, err := os.ReadFile(filepath.Join(source, "bytes", "sluice-instance"))
	if err != nil {
		t.Fatal(err)
	}
	start(t, options{data: target}).stop() // for an empty database
	execute(t, target, `DELETE FROM facts`, `INSERT INTO facts VALUES (CAST('instance' AS BLOB), CAST('copy of `+string(id)+`' AS BLOB))`)
	from, to := filepath.Join(target, "bytes", "sluice-instance"), filepath.Join(target, "bytes", "sluice-migration")
	if err := errors.Join(os.Rename(from, to), os.WriteFile(to, id, 0o600)); err != nil {
		t.Fatal(err)
	}
	if r := sluiceRuns(t, "serve", "--addr", "127.0.0.1:0", "--data", target); r.code != 1 || !strings.Contains(r.stderr, "unfinished copy") {
		t.Fatalf("serve on an unfinished clone: exit code %d, %s", r.code, r.stderr)
	}
	runClone(t, "--from", source, "--to", target)
	s = start(t, options{data: target})
	for name, want := range p.Blobs {
		if r := s.must(200, "GET", name, nil); digest(r.body) != want {
			t.Errorf("%s is %v, not what was stored", name, r)
		}
	}
}

// execute runs statements on a data folder's database.
func execute(t testing.TB, data string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(data, "meta.db"))
	if err != nil {
		t.Fatal(err)
	}
	var errs []error
	for _, s := range statements {
		_, err := db.ExecContext(t.Context(), s)
		errs = append(errs, err)
	}
	if err := errors.Join(append(errs, db.Close())...); err != nil {
		t.Fatal(err)
	}
}

// unpackPrevious unpacks the archive. The server keeps uploads and idempotency keys for hours or
// days, so it sets their times to now.
func unpackPrevious(t *testing.T, data string) (p previous) {
	t.Helper()
	archive, err := os.Open(previousArchive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	unzipped, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewReader(unzipped)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		if header.Name == "previous.json" {
			if err := json.Unmarshal(content, &p); err != nil {
				t.Fatal(err)
			}
			continue
		}
		name := filepath.Join(data, filepath.FromSlash(header.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().UnixMicro()
	execute(t, data,
		fmt.Sprintf(`UPDATE uploads SET touched = %d`, now),
		fmt.Sprintf(`UPDATE uploads SET ended = %d WHERE ended IS NOT NULL`, now),
		fmt.Sprintf(`UPDATE idempotency SET created = %d`, now))
	return p
}

// writePrevious runs a binary on a new data folder, and packs the folder.
func writePrevious(t *testing.T, binary string) {
	t.Helper()
	const forever = "876000h"
	s := &server{t: t, data: filepath.Join(t.TempDir(), "data")}
	s.run([]string{binary, "serve", "--addr", "127.0.0.1:0", "--data", s.data, "--session-ttl", forever, "--channel-ttl", forever})
	p := previous{Blobs: map[string]string{}, Deleted: blobTarget("0x1", "deleted")}
	put := func(name string, data []byte) {
		s.must(204, "PUT", blobTarget("0x1", name), data)
		p.Blobs[blobTarget("0x1", name)] = digest(data)
	}
	put("empty", nil)
	put("inline", content(1, 1000))
	put("object", content(2, 20_000))
	put(strings.Repeat("é", 1000), content(3, 100))
	put("overwritten", content(4, 100))
	put("overwritten", content(5, 101))
	put("deleted", content(6, 100))
	s.must(204, "DELETE", p.Deleted, nil)
	delete(p.Blobs, p.Deleted)
	parts := content(7, 2*previousPart+1)
	p.Completed = s.begin("0x1", "parts", previousPart)
	s.parts(p.Completed, parts, previousPart)
	s.must(200, "POST", "/v1/multipart-uploads/"+p.Completed+"/complete", nil)
	p.Blobs[blobTarget("0x1", "parts")] = digest(parts)
	p.Open = s.begin("0x1", "later", previousPart)
	s.must(200, "PUT", partTarget(p.Open, 0), content(8, previousPart))
	p.Session = s.session()
	s.must(200, "POST", "/v1/sessions/"+p.Session+"/use", nil)
	p.Repeated = text(t, s.must(201, "POST", "/v1/sessions", []byte("{}"), previousKey, "k").object(t), "sessionId")
	c := s.open(s.payer(1), 1000)
	p.Bought = c.buy(10).SessionID
	c.settled()
	p.Channel.ID, p.Channel.Number, p.Channel.Sequence, p.Channel.Amount = c.id, c.number, c.sequence, c.amount
	secret, err := exec.Command(binary, "key", "create", "--data", s.data, "--scopes", "read", "--all-accounts").Output()
	found := credential.FindStringSubmatch(string(secret))
	if err != nil || found == nil {
		t.Fatalf("key create prints %q, %v", secret, err)
	}
	p.Key = found[1]
	s.stop()
	packPrevious(t, s.data, p)
}

func packPrevious(t *testing.T, data string, p previous) {
	t.Helper()
	files := map[string][]byte{"previous.json": asJSON(t, p)}
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
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&archive, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	packed := tar.NewWriter(zipped)
	for name, content := range files {
		if err := packed.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := packed.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(packed.Close(), zipped.Close(), os.WriteFile(previousArchive, archive.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
}
