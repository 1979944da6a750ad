package datadir

import (
	"os"
	"path/filepath"
	"testing"

	"sluice/test/testenv"
)

// trusts checks the recorded state of a folder's database.
func trusts(t *testing.T, d *Dir, want Trust, name string) {
	t.Helper()
	testenv.Equal(t, testenv.Must(d.Trust())(t), want, "%s", name)
}

// replace replaces a file by one with the same content, as a copy does.
func replace(t *testing.T, name string) {
	t.Helper()
	text := testenv.Must(os.ReadFile(name))(t)
	testenv.OK(t, os.WriteFile(name+".copy", text, 0o600))
	testenv.OK(t, os.Rename(name+".copy", name))
}

// TestTrust checks that a database is trusted once it was recorded, even after it was written and
// its folder renamed, and that a copy of it is not; damage is not forgotten with the file.
// Invariant 110.
func TestTrust(t *testing.T) {
	parent := t.TempDir()
	path := filepath.Join(parent, "data")
	d := testenv.Must(Open(path))(t)
	testenv.Must(d.CreateDatabase())(t)
	trusts(t, d, Unknown, "a database that is not recorded")
	testenv.OK(t, d.RecordWhole())
	trusts(t, d, Whole, "a database that is recorded")
	testenv.OK(t, os.WriteFile(d.Path(Database), []byte("content"), 0o600))
	trusts(t, d, Whole, "a database that was written")
	testenv.OK(t, d.Close())
	testenv.OK(t, os.Rename(path, path+"2"))
	d = mustOpen(t, path+"2")
	trusts(t, d, Whole, "a folder that was renamed")

	testenv.OK(t, os.CopyFS(filepath.Join(parent, "copy"), os.DirFS(d.path)))
	copied := mustOpen(t, filepath.Join(parent, "copy"))
	trusts(t, copied, Unknown, "a copy of the folder")
	testenv.OK(t, copied.RecordWhole())
	trusts(t, copied, Whole, "a copy that is recorded")

	replace(t, d.Path(Database))
	trusts(t, d, Unknown, "another file with the same content")
	testenv.OK(t, d.RecordDamaged())
	trusts(t, d, Damaged, "a damaged database")
	replace(t, d.Path(Database))
	trusts(t, d, Damaged, "a file that has replaced a damaged database")
	testenv.OK(t, d.RecordWhole())
	trusts(t, d, Whole, "a database that is recorded as whole after that")
}

// TestRecordIsInterrupted checks that a record that is interrupted leaves the one before, and that
// a file that cannot be parsed is no record.
// Invariant 110.
func TestRecordIsInterrupted(t *testing.T) {
	d := mustOpen(t, filepath.Join(t.TempDir(), "data"))
	testenv.Must(d.CreateDatabase())(t)
	testenv.OK(t, d.RecordWhole())
	testenv.OK(t, os.WriteFile(d.Path(recordNew), []byte("who"), 0o600))
	trusts(t, d, Whole, "with a new record that was begun")
	text := testenv.Must(os.ReadFile(d.Path(recordFile)))(t)
	for n := range len(text) - 1 {
		testenv.OK(t, os.WriteFile(d.Path(recordFile), text[:n], 0o600))
		trusts(t, d, Unknown, "with "+string(text[:n]))
	}
	testenv.OK(t, d.RecordWhole())
	trusts(t, d, Whole, "in the end")
}
