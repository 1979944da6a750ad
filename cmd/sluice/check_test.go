package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/blob"
	"sluice/cmd/sluice/internal/cli"
	"sluice/storage"
	"sluice/test/testenv"
)

// printedFindings is the number of findings that are printed as text.
const printedFindings = 100

// TestCheck checks an instance beside a server, which is whole, and then with more damage than is
// printed.
func TestCheck(t *testing.T) {
	data := filepath.Join(testenv.MemoryDir(t), "data")
	if r := sluice("check", "--data", data); r.code != cli.ExitNotFound || !strings.Contains(r.stderr, "it is not the data folder of an instance") {
		t.Errorf("without data: %+v", r)
	}
	s := opened(t, data)
	blobs := blob.New(s.Meta, s.Bytes, blob.Options{})
	for i, size := range append(make([]int, printedFindings+1), 40_000) {
		body := make([]byte, size+10)
		testenv.Must(blobs.Put(t.Context(), blob.PutOptions{Account: "a", Name: fmt.Sprint("n", i)}, bytes.NewReader(body), int64(len(body))))(t)
	}
	r := must(t, "check", "--data", data)
	const objects = "Checked: 1 objects with 39 KiB, 0 B of them read; 306 rows; and 101 bodies in the database.\n"
	const unread = "Not checked: the bytes of the objects: only their sizes were compared; --read-bytes reads them.\n"
	testenv.Equal(t, r.stdout, objects+unread+"No damage was found.\n", "of a whole instance")
	if r := must(t, "check", "--data", data, "--read-bytes"); !strings.Contains(r.stdout, "39 KiB of them read") || strings.Contains(r.stdout, "Not checked") {
		t.Errorf("with all bytes: %+v", r)
	}

	change(t, data, `UPDATE bodies SET body = zeroblob(9)`)
	r = sluice("check", "--data", data)
	if want := int64(2 * (printedFindings + 1)); r.code != cli.ExitDamaged || strings.Count(r.stdout, "\n") != printedFindings+3 ||
		!strings.Contains(r.stdout, fmt.Sprintf("and %d more\n", want-printedFindings)) || !strings.Contains(r.stderr, fmt.Sprintf("damage was found: %d", want)) {
		t.Errorf("damaged: %+v", r)
	}
	r = sluice("check", "--data", data, "--json")
	var printed struct {
		Damaged               bool
		Found, Repairs        int64
		Repaired, NotRepaired []string
		Findings              []struct{ Kind string }
	}
	if err := json.Unmarshal([]byte(r.stdout), &printed); err != nil || r.code != cli.ExitDamaged || !printed.Damaged || len(printed.Findings) != 2*(printedFindings+1) || printed.Findings[0].Kind != "body" {
		t.Errorf("in JSON: %+v, %v", r, err)
	}
}

// TestCheckRepairs repairs a data folder: refused beside a server, with damage that stays, and
// without any that is left.
func TestCheckRepairs(t *testing.T) {
	data := filepath.Join(testenv.MemoryDir(t), "data")
	s := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	body := make([]byte, 100)
	testenv.Must(blob.New(s.Meta, s.Bytes, blob.Options{}).Put(t.Context(), blob.PutOptions{Account: "a", Name: "n"}, bytes.NewReader(body), 100))(t)
	if r := sluice("check", "--data", data, "--repair"); r.code != cli.ExitRefused || r.stdout != "" || !strings.Contains(r.stderr, "is in use") {
		t.Errorf("beside a server: %+v", r)
	}
	testenv.OK(t, s.Close())
	const sums, repaired = `UPDATE account_sums SET blobs = 7`, `Repaired: account "a": 7 blobs of 100 bytes were counted, and there are 1 of 100.`
	const checked = "Checked: 0 objects with 0 B, 0 B of them read; 3 rows; and 1 bodies in the database.\n"
	change(t, data, sums)
	if r := sluice("check", "--data", data); r.code != cli.ExitDamaged || !strings.Contains(r.stdout, "7 blobs of 100 bytes are counted") {
		t.Errorf("without a repair: %+v", r)
	}
	r := must(t, "check", "--data", data, "--repair")
	testenv.Equal(t, r.stdout, repaired+"\n"+checked+"No other damage was found.\n", "with a repair")
	r = must(t, "check", "--data", data, "--repair")
	testenv.Equal(t, r.stdout, checked+"No damage was found.\n", "with a second repair")

	change(t, data, sums)
	change(t, data, `UPDATE bodies SET body = randomblob(100)`)
	r = sluice("check", "--data", data, "--repair", "--json")
	var printed struct {
		Damaged               bool
		Found, Repairs        int64
		Repaired, NotRepaired []string
		Findings              []struct{ Kind string }
	}
	if err := json.Unmarshal([]byte(r.stdout), &printed); err != nil || r.code != cli.ExitDamaged || printed.Repairs != 1 || len(printed.Repaired) != 1 || len(printed.NotRepaired) != 0 || printed.Found != 2 {
		t.Errorf("in JSON: %+v, %v", r, err)
	}

	whole := filepath.Join(testenv.MemoryDir(t), "whole")
	testenv.OK(t, opened(t, whole).Close())
	copied := filepath.Join(testenv.MemoryDir(t), "copied")
	testenv.OK(t, os.CopyFS(copied, os.DirFS(whole)))
	if r := sluice("check", "--data", copied, "--repair"); r.code != cli.ExitPartly || !strings.Contains(r.stdout, "Not repaired: nothing was: ") || !strings.Contains(r.stderr, "not everything could be repaired") {
		t.Errorf("a copy: %+v", r)
	}
}
