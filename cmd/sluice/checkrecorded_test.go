package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/cmd/sluice/internal/cli"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestDamaged lists damage beside the process that has recorded it: a blob and its copy, and a part
// that no blob has.
func TestDamaged(t *testing.T) {
	data := filepath.Join(testenv.MemoryDir(t), "data")
	if r := sluice("check", "--recorded", "--data", data); r.code != cli.ExitNotFound || !strings.Contains(r.stderr, "there is no data") {
		t.Errorf("without data: %+v", r)
	}
	s := opened(t, data)
	if r := must(t, "check", "--recorded", "--data", data); r.stdout != "No damage is recorded.\n" {
		t.Errorf("in order: %+v", r)
	}
	const object = "3f-0123456789ab-0123456789abcdef0123456789abcdef"
	b := metastore.Blob{Account: "a", Name: "n\x1b[2J", Content: metastore.NewContentID(time.Now()), Size: 1<<20 + 1}
	extent := metastore.Extent{Size: b.Size, Blocks: []uint32{1, 2}, Object: object, Created: time.Now()}
	testenv.Must(s.Meta.CommitBlob(t.Context(), b, []metastore.Extent{extent}, nil))(t)
	testenv.Must(s.Meta.CopyBlob(t.Context(), metastore.Copy{From: metastore.BlobName{Account: "a", Name: b.Name}, To: metastore.Blob{Account: "b", Name: "copy"}}))(t)
	d := metastore.Damage{ExtentID: metastore.ExtentID{Content: b.Content}, Size: b.Size, Object: object, Bad: 2, Reason: "the checksum differs"}
	testenv.Must(s.Meta.RecordDamage(t.Context(), d))(t)

	r := sluice("check", "--recorded", "--data", data)
	if r.code != cli.ExitDamaged || strings.Count(r.stdout, "\n") != 2 || !strings.Contains(r.stderr, "damaged extents: 1") || strings.Contains(r.stdout, "\x1b") {
		t.Errorf("damaged: %+v", r)
	}
	for _, want := range []string{"b/copy: 1 B damaged in object " + object, "the checksum differs"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("damaged: %q, want %q", r.stdout, want)
		}
	}
	r = sluice("check", "--recorded", "--data", data, "--json")
	var got struct {
		Object string
		Bytes  int64 `json:"damagedBytes"`
		Since  time.Time
		Blobs  []struct{ Name string }
	}
	testenv.OK(t, json.Unmarshal([]byte(r.stdout), &got))
	if got.Object != object || got.Bytes != 1 || len(got.Blobs) != 2 || got.Blobs[0].Name != b.Name || got.Since.IsZero() {
		t.Errorf("damaged --json: %+v", got)
	}
}
