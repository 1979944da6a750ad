package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"sluice/blob"
	"sluice/internal/testenv"
)

// TestCheck checks an instance beside a server, which is whole, and then with more damage than is
// printed.
func TestCheck(t *testing.T) {
	data := filepath.Join(testenv.MemoryDir(t), "data")
	if r := sluice("check", "--data", data); r.code != 1 || !strings.Contains(r.stderr, "it is not the data folder of an instance") {
		t.Errorf("without data: %+v", r)
	}
	s := opened(t, data)
	blobs := blob.New(s.Meta, s.Bytes, blob.Options{})
	for i, size := range append(make([]int, maxPrinted+1), 20_000) {
		body := make([]byte, size+10)
		testenv.Must(blobs.Put(t.Context(), blob.PutOptions{Account: "a", Name: fmt.Sprint("n", i)}, bytes.NewReader(body), int64(len(body))))(t)
	}
	r := must(t, "check", "--data", data)
	const objects = "Checked: 1 objects with 20 kB, 0 B of them read; 204 rows; and 101 bodies in the database.\n"
	const unread = "Not checked: the bytes of the objects: only their sizes were compared; --read-bytes reads them.\n"
	testenv.Equal(t, r.stdout, objects+unread+"No damage was found.\n", "of a whole instance")
	if r := must(t, "check", "--data", data, "--read-bytes"); !strings.Contains(r.stdout, "20 kB of them read") || strings.Contains(r.stdout, "Not checked") {
		t.Errorf("with all bytes: %+v", r)
	}

	change(t, data, `UPDATE bodies SET body = zeroblob(9)`)
	r = sluice("check", "--data", data)
	if want := int64(2 * (maxPrinted + 1)); r.code != exitDamaged || strings.Count(r.stdout, "\n") != maxPrinted+3 ||
		!strings.Contains(r.stdout, fmt.Sprintf("and %d more\n", want-maxPrinted)) || !strings.Contains(r.stderr, fmt.Sprintf("damage was found: %d", want)) {
		t.Errorf("damaged: %+v", r)
	}
	r = sluice("check", "--data", data, "--json")
	var printed printedCheck
	if err := json.Unmarshal([]byte(r.stdout), &printed); err != nil || r.code != exitDamaged || !printed.Damaged || len(printed.Findings) != 2*(maxPrinted+1) || printed.Findings[0].Kind != "body" {
		t.Errorf("in JSON: %+v, %v", r, err)
	}
}
