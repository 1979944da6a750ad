package e2e

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// limitFiles makes all the process's writes beyond a file's first 4 KiB fail, as with a broken
// disk.
func limitFiles(t *testing.T, s *server) {
	t.Helper()
	limit := unix.Rlimit{Cur: 4096, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(s.command.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		t.Fatal(err)
	}
}

// TestStoppedServerEnds makes a COMMIT fail with an I/O error. Its outcome is unknown, and the
// server drains and exits with code 1, so that a supervisor restarts it. After the next start the
// server must have everything that it has acknowledged.
func TestStoppedServerEnds(t *testing.T) {
	t.Parallel()
	s := start(t, options{dirty: true})
	s.must(204, "PUT", blobTarget("0x1", "before"), content(1, 3000))
	limitFiles(t, s)
	checkProblem(t, s.do("PUT", blobTarget("0x1", "after"), content(2, 15000)), 503, "outcome_unknown")
	if code := s.wait(); code != 1 {
		t.Errorf("exit code %d, want 1\n%s", code, s.log)
	}
	log := s.log.String()
	for _, want := range []string{"no more writes are possible in this process", "sluice: sqlstore: stopped after an I/O error"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not contain %q:\n%s", want, tail(log))
		}
	}
	s.restart()
	if r := s.do("GET", blobTarget("0x1", "before"), nil); r.status != 200 || digest(r.body) != digest(content(1, 3000)) {
		t.Errorf("the acknowledged blob: %v", r)
	}
	s.must(204, "PUT", blobTarget("0x1", "after"), content(2, 15000))
}

// TestDamagedDatabaseServesReads overwrites some of the database's pages. As soon as a request
// meets the damage, the server must refuse writes and not be ready, while reads work and the
// process keeps running.
func TestDamagedDatabaseServesReads(t *testing.T) {
	t.Parallel()
	s := start(t, options{damaged: true})
	s.must(204, "PUT", blobTarget("0x1", "blob"), content(1, 3000))
	s.must(201, "POST", "/v1/sessions", nil)
	s.stop()
	damageTable(t, filepath.Join(s.data, "meta.db"), "sessions")
	s.restart()
	// This is the first request for /readyz. The server caches the result for a second.
	if r := s.do("POST", "/v1/sessions", nil); r.status < 500 {
		t.Fatalf("a write to a damaged table: %v", r)
	}
	checkProblem(t, s.do("GET", "/readyz", nil), 503, "not_ready")
	checkProblem(t, s.do("PUT", blobTarget("0x1", "later"), content(2, 10)), 503, "unavailable")
	s.must(200, "GET", "/livez", nil)
	if r := s.do("GET", blobTarget("0x1", "blob"), nil); r.status != 200 || digest(r.body) != digest(content(1, 3000)) {
		t.Errorf("a read of an undamaged blob: %v", r)
	}
	s.eventually("the log does not contain what to do", func() bool {
		return strings.Contains(s.log.String(), "the database is damaged; stop the server and restore a backup")
	})
}

// damageTable overwrites a table's root page in a SQLite database. The schema names that page, and
// starts on the first page itself.
func damageTable(t *testing.T, path, table string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
