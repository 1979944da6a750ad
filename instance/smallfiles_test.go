package instance

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/blob"
	"sluice/history"
	"sluice/internal/datadir"
	"sluice/storage"
	"sluice/test/testenv"
)

// TestOneWrongBit flips bits in each small file of a data folder, and checks the folder: each is
// reported, with the way out. A file that is not in the table is empty, or nobody reads it.
// Invariant 113.
func TestOneWrongBit(t *testing.T) {
	data := newSource(t)
	run(t, data, func(_ *storage.Stores, blobs *blob.Service) { put(t, blobs, "recorded") })
	returns := []byte(`[{"since":"2026-01-02T03:04:05Z","name":"n","count":7,"session":"s"}]`)
	name := fmt.Sprintf("NAME-%08x.json", crc32.Checksum(returns, crc32.MakeTable(crc32.Castagnoli)))
	testenv.OK(t, os.Mkdir(filepath.Join(data, datadir.Returns), 0o700))
	testenv.OK(t, os.WriteFile(filepath.Join(data, datadir.Returns, name), returns, 0o600))
	if found := checkAll(t, data); found.Found > 0 || len(found.Skipped) > 0 {
		t.Fatalf("without a wrong bit: %+v", found)
	}
	told := map[string]string{
		"meta.db-record": "the next start checks it, and writes meta.db-record anew",
		filepath.Join(datadir.Bytes, "sluice-instance"):                 "sluice recover writes it anew",
		filepath.Join(datadir.Bytes, "sluice-history-0000000000000001"): "sluice recover continues with the instance",
		filepath.Join(datadir.Returns, name):                            "move it out of the folder to start without it",
		"lock":                                                          "",
		"server-lock":                                                   "",
		"ballast":                                                       "",
		filepath.Join(datadir.Bytes, "sluice.lock"):                     "",
		datadir.Database:                                                "TestCheckFindsDamage",
	}
	seen := map[string]bool{}
	testenv.OK(t, filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Dir(filepath.Dir(path)) == filepath.Join(data, datadir.Bytes) {
			return err
		}
		file := testenv.Must(filepath.Rel(data, path))(t)
		way, known := told[file]
		if !known {
			t.Errorf("%s is not in the table", file)
		}
		if seen[file] = true; way == "" || !strings.Contains(way, " ") {
			return nil
		}
		content := testenv.Must(os.ReadFile(path))(t)
		for bit := 0; bit < 8*len(content); bit += 3 {
			damaged := append([]byte{}, content...)
			damaged[bit/8] ^= 1 << (bit % 8)
			testenv.OK(t, os.WriteFile(path, damaged, 0o600))
			found := testenv.Must(Check(t.Context(), Location{Data: data}, CheckOptions{}))(t)
			if text := fmt.Sprint(found.Findings, found.Skipped); !strings.Contains(text, way) {
				t.Fatalf("bit %d of %s: %s, want %q", bit, file, text, way)
			}
		}
		testenv.OK(t, os.WriteFile(path, append(content, '0'), 0o600))
		found := testenv.Must(Check(t.Context(), Location{Data: data}, CheckOptions{}))(t)
		if text := fmt.Sprint(found.Findings, found.Skipped); !strings.Contains(text, way) {
			t.Errorf("a byte behind %s: %s, want %q", file, text, way)
		}
		return os.WriteFile(path, content, 0o600)
	}))
	if len(seen) < 6 {
		t.Errorf("the folder has only %v", seen)
	}
}

// TestLostInstanceObject: without the object that has the bytes' id, and with another id, a check,
// a recovery and a start report the same, and a recovery writes it anew. It does not take another
// instance's bytes.
// Invariant 113.
func TestLostInstanceObject(t *testing.T) {
	data := newSource(t)
	id := filepath.Join(data, datadir.Bytes, string(history.InstanceObject))
	text := testenv.Must(os.ReadFile(id))(t)
	for _, damage := range []func() error{
		func() error { return os.Remove(id) },
		func() error { return os.Truncate(id, 20) },
		func() error { return flip(id, 5) },
		func() error { return os.WriteFile(id, append(text, '\n'), 0o600) },
	} {
		testenv.OK(t, damage())
		if found := checkAll(t, data); found.Found != 1 || found.Findings[0].Kind != DamagedFile {
			t.Errorf("a check: %+v", found.Findings)
		}
		s, err := storage.Open(t.Context(), Location{Data: data}, storage.Options{})
		if err == nil { // a byte behind the id does not matter to it
			testenv.OK(t, s.Close())
		} else if !strings.Contains(err.Error(), "sluice recover writes") {
			t.Errorf("a start: %v", err)
		}
		found := testenv.Must(recovered(t, data))(t)
		if !strings.Contains(found.Seen, string(history.InstanceObject)) {
			t.Errorf("a recovery: %+v", found)
		}
		testenv.Equal(t, string(testenv.Must(os.ReadFile(id))(t)), string(text), "the id")
		testenv.Equal(t, checkAll(t, data).Found, 0, "findings after a recovery")
		_, err = recovered(t, data)
		testenv.Is(t, err, ErrNotSetBack, "another recovery")
		s = testenv.Must(storage.Open(t.Context(), Location{Data: data}, storage.Options{}))(t)
		testenv.OK(t, errors.Join(s.History.Err(), s.Close()))
	}
	other := filepath.Join(newSource(t), datadir.Bytes)
	testenv.OK(t, errors.Join(os.RemoveAll(filepath.Join(data, datadir.Bytes)), os.Rename(other, filepath.Join(data, datadir.Bytes))))
	if _, err := recovered(t, data); err == nil || !strings.Contains(err.Error(), "they belong to another instance") {
		t.Errorf("a recovery with the bytes of another instance: %v", err)
	}
}
