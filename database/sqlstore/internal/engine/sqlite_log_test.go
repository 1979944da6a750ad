package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// logOf runs statements on a new database, which changes after each of them, and returns the log's
// content after each. The database's file is at path.
func logOf(t *testing.T, path string, statements ...string) (after [][]byte) {
	t.Helper()
	// The cache is so small that long transactions write frames before their end.
	c := testenv.Must(openSQLiteConn(path, busyTimeout, []string{"cache_size(3)"}))(t)
	testenv.AtEnd(t, c.close)
	testenv.OK(t, c.run("PRAGMA journal_mode=WAL"))
	testenv.OK(t, c.run("CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB)"))
	for _, s := range statements {
		testenv.OK(t, c.script(s))
		after = append(after, testenv.Must(os.ReadFile(path+"-wal"))(t))
	}
	return after
}

// framesOf returns which frames of a log end a transaction.
func framesOf(log []byte) (ends []bool) {
	for at := logHeaderSize; at+frameHeaderSize+defaultPageSize <= len(log); at += frameHeaderSize + defaultPageSize {
		ends = append(ends, binary.BigEndian.Uint32(log[at+4:]) != 0)
	}
	return ends
}

// someCommits are transactions of one to some frames.
func someCommits(n int) (statements []string) {
	for i := range n {
		statements = append(statements, fmt.Sprintf("INSERT INTO t VALUES (%d, randomblob(%d))", i, 1+i%4*6000))
	}
	return statements
}

// TestDamagedLog flips bits in all parts of a log: it is told, with the commits behind it, unless a
// power failure during the last commit may have left the log so.
// Invariant 111.
func TestDamagedLog(t *testing.T) {
	logs := logOf(t, databasePath(t), someCommits(10)...)
	log := logs[len(logs)-1]
	ends := framesOf(log)
	name := filepath.Join(testenv.MemoryDir(t), "meta.db-wal")
	told := func(at, bit int) *logDamage {
		damaged := bytes.Clone(log)
		damaged[at] ^= 1 << bit
		testenv.OK(t, os.WriteFile(name, damaged, 0o600))
		return testenv.Must(scanLog(name))(t)
	}
	all := 0 // commits
	for _, end := range ends {
		if end {
			all++
		}
	}
	for at := range logHeaderSize {
		found := told(at, at%8)
		if want := all; found == nil || found.offset != 0 || found.commits < want-1 {
			t.Fatalf("byte %d of the header: %v, want %d commits", at, found, want)
		}
	}
	silent := 0
	for frame, end := range ends {
		start := logHeaderSize + frame*(frameHeaderSize+defaultPageSize)
		behind := 0
		for _, later := range ends[frame+1:] {
			if later {
				behind++
			}
		}
		for _, at := range []int{0, 3, 4, 7, 8, 15, 16, 19, 23, 24, 25, 2000, 4119} {
			found := told(start+at, at%8)
			lost := behind
			if end && behind == 1 {
				// A frame that ends the commit before the last one, if that can be known.
				silent++
				if found != nil && (found.offset != int64(start) || found.commits < 1) {
					t.Fatalf("byte %d of frame %d: %v", at, frame, found)
				}
				continue
			}
			if 8 <= at && at < 24 && lost > 0 && found != nil && found.commits == lost-1 {
				lost-- // a checksum that is damaged damages the next frame
			}
			switch {
			case 4 <= at && at < 8 && !end: // which makes it a frame that ends a commit
			case behind < 2 && found != nil:
				t.Fatalf("byte %d of frame %d, in the last commit: %v", at, frame, found)
			case behind >= 3 && (found == nil || found.offset != int64(start) || found.commits != lost):
				t.Fatalf("byte %d of frame %d: %v, want %d commits behind byte %d", at, frame, found, lost, start)
			}
		}
	}
	if silent == 0 {
		t.Error("no frame ends the commit before the last one")
	}
}

// TestPowerFailuresDamageNoLog lets the power fail in the last commit, with any of its sectors, in
// a log that was begun anew over an older one, and after transactions that were rolled back.
// Invariant 111.
func TestPowerFailuresDamageNoLog(t *testing.T) {
	statements := someCommits(12)
	statements = append(statements, "PRAGMA wal_checkpoint(RESTART)")
	long := "BEGIN; INSERT INTO t SELECT value + 1000, randomblob(3000) FROM generate; ROLLBACK"
	long = strings.ReplaceAll(long, "generate", "(WITH RECURSIVE g(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM g WHERE value < 60) SELECT value FROM g)")
	for i := range 8 {
		statements = append(statements, fmt.Sprintf("UPDATE t SET v = randomblob(%d) WHERE k = %d", 1+i*3000, i))
		if i%3 == 1 {
			statements = append(statements, long)
		}
	}
	logs := logOf(t, databasePath(t), statements...)
	name := filepath.Join(testenv.MemoryDir(t), "meta.db-wal")
	rng := rand.New(rand.NewPCG(1, 2))
	rolledBack, torn := 0, 0
	for i, log := range logs[1:] {
		before := logs[i]
		if strings.HasPrefix(statements[i+1], "BEGIN") && !bytes.Equal(before, log) {
			rolledBack++
		}
		for range 100 {
			cut := slices.Concat(before, make([]byte, max(0, len(log)-len(before))))
			for at := 0; at < len(log); at += sectorSize {
				if end := min(at+sectorSize, len(log)); rng.IntN(3) > 0 {
					torn += copy(cut[at:end], log[at:end])
				}
			}
			copy(cut, log[:logHeaderSize]) // SQLite syncs it before it writes frames
			testenv.OK(t, os.WriteFile(name, cut[:rng.IntN(2)*(len(cut)-len(log))+len(log)], 0o600))
			if found := testenv.Must(scanLog(name))(t); found != nil {
				t.Fatalf("after statement %d (%.40s): %v", i+1, statements[i+1], found)
			}
		}
	}
	if rolledBack == 0 || torn == 0 {
		t.Errorf("%d transactions wrote to the log and were rolled back", rolledBack)
	}
}

// TestDamagedLogIsNotOpened: a database with a damaged log is not opened, and nothing is changed.
// Once the log is moved away, it is.
// Invariant 111.
func TestDamagedLogIsNotOpened(t *testing.T) {
	source, path := databasePath(t), databasePath(t)
	openAt(t, source, Options{})
	c := testenv.Must(openSQLiteConn(source, busyTimeout, nil))(t)
	testenv.AtEnd(t, c.close)
	for i := range 5 {
		testenv.OK(t, c.run(fmt.Sprintf("PRAGMA user_version = %d", i+1)))
	}
	log := testenv.Must(os.ReadFile(source + "-wal"))(t)
	log[len(log)-3*(frameHeaderSize+defaultPageSize)] ^= 1
	db := testenv.Must(os.ReadFile(source))(t)
	testenv.OK(t, errors.Join(os.WriteFile(path, db, 0o600), os.WriteFile(path+"-wal", log, 0o600)))
	_, err := OpenSQLite(path, Options{})
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "2 whole commits behind that") {
		t.Errorf("an opening: %v", err)
	}
	found, err := CheckSQLite(t.Context(), path, func(int, int) error { return nil })
	if err != nil || len(found) != 1 || !strings.Contains(found[0], "move this file away") {
		t.Errorf("a check: %q, %v", found, err)
	}
	if !bytes.Equal(testenv.Must(os.ReadFile(path+"-wal"))(t), log) || !bytes.Equal(testenv.Must(os.ReadFile(path))(t), db) {
		t.Error("a file was changed")
	}
	testenv.OK(t, os.Rename(path+"-wal", path+"-wal.kept"))
	openAt(t, path, Options{})
}
