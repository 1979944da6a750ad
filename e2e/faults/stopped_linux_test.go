package faults

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"

	"golang.org/x/sys/unix"
)

// limitFiles makes all the process's writes beyond a file's first 4 KiB fail, as with a broken
// disk.
func limitFiles(t *testing.T, s *e2e.Server) {
	t.Helper()
	limit := unix.Rlimit{Cur: 4096, Max: unix.RLIM_INFINITY}
	testenv.OK(t, unix.Prlimit(s.Command.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil))
}

// TestStoppedServerEnds makes a COMMIT fail with an I/O error. Its outcome is unknown, and the
// server drains and exits with code 1, so that a supervisor restarts it. After the next start the
// server must have everything that it has acknowledged.
// Invariant 107.
func TestStoppedServerEnds(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Dirty: true})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "before"), e2e.Content(1, 3000))
	r := putIntoFault(t, s)
	e2e.CheckProblem(t, r, 503, "outcome_unknown")
	log := s.Log.String()
	for _, want := range []string{"no more writes are possible in this process", "sluice: sqlstore: stopped after an I/O error"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not contain %q:\n%s", want, e2e.Tail(log))
		}
	}
	s.Restart()
	s.Holds(e2e.BlobTarget("0x1", "before"), e2e.Content(1, 3000))
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "after"), e2e.Content(2, 15000))
}

// putIntoFault makes writes fail, and returns the response to a PUT, after which the server has
// ended. On a busy machine the task that keeps the time can meet the fault first, and the server
// drains before the PUT; then it tries again.
func putIntoFault(t *testing.T, s *e2e.Server) e2e.Response {
	t.Helper()
	for range 30 {
		limitFiles(t, s)
		r, err := s.Try("PUT", e2e.BlobTarget("0x1", "after"), e2e.Content(2, 15000))
		s.Exits(1)
		if err == nil && strings.Contains(string(r.Body), "outcome_unknown") {
			return r
		}
		if log := s.Log.String(); !strings.Contains(log, "the database has not kept the time") {
			t.Fatalf("%v, %v, and no other write has met the fault:\n%s", r, err, e2e.Tail(log))
		}
		s.Restart()
	}
	t.Fatal("the PUT was never the first write")
	return e2e.Response{}
}

// TestDamagedDatabaseServesReads overwrites some of the database's pages. As soon as a request
// meets the damage, the server must refuse writes and not be ready, while reads work and the
// process keeps running.
// Invariant 107.
func TestDamagedDatabaseServesReads(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Damaged: true})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "blob"), e2e.Content(1, 3000))
	s.Must(201, "POST", "/v1/sessions", nil)
	s.Stop()
	damageTable(t, filepath.Join(s.Data, "meta.db"), "session_terms")
	s.Restart()
	// This is the first request for /readyz. The server caches the result for a second.
	if r := s.Do("POST", "/v1/sessions", nil); r.Status < 500 {
		t.Fatalf("a write to a damaged table: %v", r)
	}
	e2e.CheckProblem(t, s.Do("GET", "/readyz", nil), 503, "not_ready")
	e2e.CheckProblem(t, s.Do("PUT", e2e.BlobTarget("0x1", "later"), e2e.Content(2, 10)), 503, "unavailable")
	s.Must(200, "GET", "/livez", nil)
	s.Holds(e2e.BlobTarget("0x1", "blob"), e2e.Content(1, 3000))
	s.Eventually("the log does not contain the remedy", func() bool {
		return strings.Contains(s.Log.String(), "the database is damaged; stop the server and restore a backup")
	})
}

// damageTable overwrites a table's root page in a SQLite database. The schema names that page, and
// starts on the first page itself.
func damageTable(t *testing.T, path, table string) {
	t.Helper()
	data, err := os.ReadFile(path)
	testenv.OK(t, err)
	size := int(binary.BigEndian.Uint16(data[16:]))
	// A row in the schema has the type, name and tbl_name, then the root page, then the statement.
	// The root page is below 128 here, and so one byte.
	row := []byte("table" + table + table)
	at := strings.Index(string(data), string(row))
	if at < 0 {
		t.Fatalf("%s is not in the schema", table)
	}
	page := int(data[at+len(row)])
	if !strings.HasPrefix(string(data[at+len(row)+1:]), "CREATE TABLE "+table) || page < 2 || page*size > len(data) {
		t.Fatalf("the root page of %s is %d", table, page)
	}
	for i := range size {
		data[(page-1)*size+i] = 0xa5
	}
	testenv.OK(t, os.WriteFile(path, data, 0o600))
}
