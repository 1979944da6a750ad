package faults

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"

	_ "modernc.org/sqlite"
)

const (
	isChecked = "checked before they are used"
	isWhole   = "the database is whole and has all of its objects"
)

// copied stores three blobs, and returns a server that is stopped on a copy of their folder, and
// the blobs' targets and content.
func copied(t *testing.T) (s *e2e.Server, targets []string, data []byte) {
	t.Helper()
	s = e2e.Start(t, e2e.Options{Dirty: true}) // it logs its findings as errors
	data = e2e.Content(1, 100_000)
	for i := range 3 {
		targets = append(targets, e2e.BlobTarget("0x1", fmt.Sprint("blob", i)))
		s.Must(204, "PUT", targets[i], data)
	}
	s.Stop()
	folder := filepath.Join(testenv.MemoryDir(t), "copy")
	testenv.OK(t, os.CopyFS(folder, os.DirFS(s.Data)))
	s.Data = folder
	return s, targets, data
}

// logs checks whether the server has logged a text.
func logs(t *testing.T, s *e2e.Server, want bool, text string) {
	t.Helper()
	if log := s.SettledLog(); strings.Contains(log, text) != want {
		t.Errorf("it is %t that the log has %q:\n%s", !want, text, log)
	}
}

// overwrite damages the page with which a table begins.
func overwrite(t *testing.T, data, table string) {
	t.Helper()
	file := filepath.Join(data, "meta.db")
	db := testenv.Must(sql.Open("sqlite", file))(t)
	var page int64
	testenv.OK(t, db.QueryRowContext(t.Context(), `SELECT rootpage FROM sqlite_master WHERE name = ?`, table).Scan(&page))
	testenv.OK(t, db.Close())
	f := testenv.Must(os.OpenFile(file, os.O_WRONLY, 0))(t)
	_, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, 4096), (page-1)*4096)
	testenv.OK(t, errors.Join(err, f.Close()))
}

// TestCopiedFolder starts a server on a copied folder: it checks the copy once, and is ready.
// Invariant 110.
func TestCopiedFolder(t *testing.T) {
	t.Parallel()
	s, targets, data := copied(t)
	for _, first := range []bool{true, false} {
		s.Restart()
		s.Must(200, "GET", "/readyz", nil)
		s.Holds(targets[2], data)
		logs(t, s, first, isChecked)
		logs(t, s, first, isWhole)
		s.Stop()
	}
}

// TestCopiedFolderWithoutObjects starts a server on a copied folder in which an object is missing
// and one is cut: it names the blobs, serves all whole blobs, and refuses everything else until
// sluice recover.
// Invariant 111.
func TestCopiedFolderWithoutObjects(t *testing.T) {
	t.Parallel()
	s, targets, data := copied(t)
	objects := testenv.Must(filepath.Glob(filepath.Join(s.Data, "bytes", "??", "*")))(t)
	testenv.OK(t, errors.Join(os.Remove(objects[0]), os.Truncate(objects[1], 99_999)))
	for _, first := range []bool{true, false} {
		s.Restart()
		s.Must(503, "GET", "/readyz", nil)
		e2e.CheckProblem(t, s.Do("PUT", targets[0], data), 503, "rolled_back")
		s.Must(200, "HEAD", targets[2], nil)
		logs(t, s, first, isChecked)
		logs(t, s, true, "2 of 3 objects are missing or cut")
		logs(t, s, true, "run sluice recover")
		s.Stop()
	}
	r := e2e.SluiceRuns(t, "recover", "--data", s.Data, "--yes")
	for _, want := range []string{"2 of 3 objects are missing or cut", "Blobs that cannot be read: 2.", "0x1/blob", "Generation 2 has begun"} {
		if r.Code != 0 || !strings.Contains(r.Stdout, want) {
			t.Errorf("the recovery lacks %q: %+v", want, r)
		}
	}
	s.Restart()
	s.Must(200, "GET", "/readyz", nil)
	for _, target := range targets {
		s.Must(204, "PUT", target, data)
		s.Holds(target, data)
	}
	logs(t, s, false, isChecked)
}

// refuses checks that a command on a folder fails for the reasons wanted.
func refuses(t *testing.T, command []string, data string, wants ...string) {
	t.Helper()
	r := e2e.SluiceRuns(t, append(command, "--data", data)...)
	for _, want := range wants {
		if r.Code == 0 || !strings.Contains(r.Stderr, want) {
			t.Errorf("%v lacks %q: %+v", command, want, r)
		}
	}
}

// TestCopiedFolderWithDamagedPages starts a server on a copied folder with a damaged page: it
// does not start, and neither does a recovery. Once the database is replaced, only a recovery leads
// on.
// Invariant 111.
func TestCopiedFolderWithDamagedPages(t *testing.T) {
	t.Parallel()
	s, targets, data := copied(t)
	file := filepath.Join(s.Data, "meta.db")
	whole := testenv.Must(os.ReadFile(file))(t)
	overwrite(t, s.Data, "session_terms")
	for range 2 {
		refuses(t, []string{"serve", "--addr", "127.0.0.1:0", "--s3-addr", "off"}, s.Data, "the database is damaged", "Tree", "restore a backup")
	}
	refuses(t, []string{"recover", "--yes"}, s.Data, "the database is damaged", "Tree", "restore a backup")
	testenv.OK(t, errors.Join(os.Remove(file), os.WriteFile(file, whole, 0o600)))
	s.Restart()
	s.Must(503, "GET", "/readyz", nil)
	s.Must(200, "HEAD", targets[0], nil)
	logs(t, s, true, "may lack changes")
	s.Stop()
	if r := e2e.SluiceRuns(t, "recover", "--data", s.Data, "--yes"); r.Code != 0 || !strings.Contains(r.Stdout, "Generation 2 has begun") {
		t.Errorf("the recovery: %+v", r)
	}
	s.Restart()
	s.Must(200, "GET", "/readyz", nil)
	s.Must(204, "PUT", targets[0], data)
}

// TestDamagedPagesAreFoundAtAStart damages a page in a stopped server's database: the next start is
// not ready and reports why, serves reads, refuses writes and keeps running, and the one after it
// names the damage and ends.
// Invariants 107, 112.
func TestDamagedPagesAreFoundAtAStart(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Dirty: true}) // it logs the damage as an error
	target := e2e.BlobTarget("0x1", "blob")
	s.Must(204, "PUT", target, []byte("data"))
	s.Stop()
	overwrite(t, s.Data, "session_terms")
	s.Restart()
	s.Must(503, "GET", "/readyz", nil)
	s.Holds(target, []byte("data"))
	for _, write := range [][2]string{{"PUT", target}, {"POST", "/v1/sessions"}} {
		if r := s.Do(write[0], write[1], []byte("{}")); r.Status != 503 {
			t.Errorf("a write to a damaged database: %v", r)
		}
	}
	s.Must(200, "GET", "/livez", nil)
	logs(t, s, true, "the quick check of the database has found damage")
	s.Stop()
	refuses(t, []string{"serve", "--addr", "127.0.0.1:0", "--s3-addr", "off"}, s.Data, "the database is damaged", "Tree", "restore a backup")
}
