package node

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/blob"
	"sluice/metastore"
	"sluice/storage"
	"sluice/test/testenv"
)

// writeTree writes files below dir, by name.
func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		testenv.OK(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)))
	}
}

// TestSeedOfFilesWithoutTheirSize stores files that have 0 bytes for stat, and more for a reader.
func TestSeedOfFilesWithoutTheirSize(t *testing.T) {
	stores, err := storage.Open(t.Context(), storage.Location{Data: filepath.Join(t.TempDir(), "data")}, storage.Options{Database: filepath.Join(t.TempDir(), "database")})
	testenv.OK(t, err)
	testenv.AtEnd(t, stores.Close)
	const dir = "/proc/sys/net/ipv4/neigh"
	want := testenv.Must(os.ReadFile(filepath.Join(dir, "lo/gc_stale_time")))(t)
	done, err := seed(t.Context(), blob.New(stores.Meta, stores.Bytes, stores.BlobOptions()), dir)
	if err != nil || done.Bytes < int64(done.Blobs) {
		t.Errorf("stored %+v, %v", done, err)
	}
	page, err := stores.Meta.ListBlobs(t.Context(), metastore.ListQuery{Account: "lo", Prefix: "gc_stale_time", Limit: 1})
	testenv.OK(t, err)
	testenv.Equal(t, page.Blobs[0].Size, int64(len(want)), "the size")
}

// TestSeed stores a folder with names of any form: it checks the types, and which files are skipped
// and why. Then it checks that blobs which exist are kept.
func TestSeed(t *testing.T) {
	const account = "team.a_b-c"
	dir, segment := t.TempDir(), strings.Repeat("s", 255)
	writeTree(t, dir, map[string]string{
		account + "/a.json":                  "{}",
		account + "/deep/er/é 日本 %2F ?#.txt": "text",
		account + "/page":                    "<!DOCTYPE html><title>x</title>",
		account + "/empty":                   "",
		account + "/.hidden":                 "hidden",
		account + "/..b/...":                 "dots",
		account + "/x.png":                   "not an image",
		"0x01/a":                             "first",
		"0x1/a":                              "second",
		"Team/a":                             "",
		"0xzz/a":                             "",
		"-x/a":                               "",
		"top.txt":                            "",
		account + "/line\nbreak":             "",
		account + "/\xff\xfe":                "",
		account + strings.Repeat("/"+segment, 4) + "/x": "",
	})
	for link, target := range map[string]string{account + "/link": "a.json", "linked": account, "dangling": "nothing"} {
		testenv.OK(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	stores, err := storage.Open(t.Context(), storage.Location{Data: filepath.Join(t.TempDir(), "data")}, storage.Options{Database: filepath.Join(t.TempDir(), "database")})
	testenv.OK(t, err)
	testenv.AtEnd(t, stores.Close)
	blobs := blob.New(stores.Meta, stores.Bytes, stores.BlobOptions())
	done, err := seed(t.Context(), blobs, dir)
	if err != nil || done.Blobs != 8 || done.Bytes != int64(len("{}text<!DOCTYPE html><title>x</title>hiddendotsnot an imagefirst")) || done.Accounts != 2 || done.Kept != 0 {
		t.Errorf("stored %+v, %v", done, err)
	}
	reasons := map[string]string{}
	for _, s := range done.Skipped {
		reasons[s.Name] = s.Err.Error()
	}
	const badAccount = "the account must be an address or"
	for name, want := range map[string]string{
		"0x1/a":                  `the folders "0x01" and "0x1" are the same account`,
		"Team/a":                 "the account must be in lower case, unless it is an address",
		"0xzz/a":                 `the account must have 1 to 64 hexadecimal digits after "0x"`,
		"-x/a":                   badAccount,
		"top.txt":                "it is in no folder, which would name the account",
		"linked":                 "it is a symbolic link",
		"dangling":               "it is a symbolic link",
		account + "/link":        "it is a symbolic link",
		account + "/line\nbreak": "holds the control character U+000A",
		account + "/\xff\xfe":    "is not valid UTF-8",
		account + strings.Repeat("/"+segment, 4) + "/x": "is longer than 1024 characters",
	} {
		if !strings.Contains(reasons[name], want) {
			t.Errorf("%q was skipped because %q, want %q", name, reasons[name], want)
		}
		delete(reasons, name)
	}
	if len(reasons) > 0 {
		t.Errorf("also skipped: %q", reasons)
	}
	const text = "text/plain; charset=utf-8"
	want := map[string]string{
		"a.json": "application/json", "deep/er/é 日本 %2F ?#.txt": text, "page": "text/html; charset=utf-8",
		"empty": text, ".hidden": text, "..b/...": text, "x.png": "image/png",
	}
	types := map[string]string{}
	page, err := stores.Meta.ListBlobs(t.Context(), metastore.ListQuery{Account: account, Limit: 100})
	testenv.OK(t, err)
	for _, b := range page.Blobs {
		types[b.Name] = b.ContentType
	}
	if !maps.Equal(types, want) {
		t.Errorf("stored are %q, want %q", types, want)
	}

	writeTree(t, dir, map[string]string{account + "/a.json": "changed", account + "/new": "new"})
	if done, err = seed(t.Context(), blobs, dir); err != nil || done.Blobs != 1 || done.Kept != 8 {
		t.Errorf("stored again: %+v, %v", done, err)
	}
	b, err := stores.Meta.Blob(t.Context(), account, "a.json")
	if err != nil || b.Size != 2 {
		t.Errorf("a blob that existed is now %+v, %v", b, err)
	}
	if _, err := seed(t.Context(), blobs, filepath.Join(dir, "nothing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "linked" }) {
		t.Errorf("the folder has changed: %v, %v", entries, err)
	}
}
