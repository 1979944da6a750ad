package engine

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"sluice/test/testenv"
)

// TestLongReadDelaysNoWrites: while a read prevents that a log which has become too long is
// restarted, checkpoints do not exclude writes, and after the read the log is restarted.
func TestLongReadDelaysNoWrites(t *testing.T) {
	path := databasePath(t)
	s, e := openWithEngine(t, path, Options{})
	e.checkpointer.close() // the test runs the checkpoints
	k := &checkpointer{conn: e.checkpointer.conn, writer: e.writer, health: e.health, limit: maxLog}
	e.checkpointer = newCheckpointer(e.checkpointer.conn, e.writer, true) // for the engine's close
	reader := testenv.Must(openSQLiteConn(path, 0, nil))(t)
	defer closeConn(t, reader)
	testenv.OK(t, reader.run("BEGIN"))
	testenv.OK(t, reader.run("SELECT COUNT(*) FROM facts"))

	const pages = maxLog + restartBelow + 1
	text := bytes.Repeat([]byte("x"), 1<<20)
	for i := range pages/(len(text)/4096) + 1 {
		execute(t, s, `INSERT INTO facts (name, value) VALUES ($1, $2)`, fmt.Append(nil, i), text)
	}
	e.writer.batchMu.Lock() // a checkpoint that excludes writes would never end
	k.checkpoint()
	e.writer.batchMu.Unlock()
	if k.limit < pages+logStep {
		t.Errorf("the next attempt is at %d pages", k.limit)
	}
	testenv.OK(t, reader.run("COMMIT"))
	k.limit = maxLog
	k.checkpoint()
	execute(t, s, `INSERT INTO facts (name, value) VALUES ($1, $2)`, []byte("m"), []byte("v"))
	if c := k.run("PRAGMA wal_checkpoint(PASSIVE)"); c.pages > 100 {
		t.Errorf("the log was not restarted: it has %d pages", c.pages)
	}
}

// TestBesideLeavesTheLog: a store that is opened beside another accepts writes though the log is in
// use, and neither empties nor shortens it.
func TestBesideLeavesTheLog(t *testing.T) {
	path := databasePath(t)
	s, e := openWithEngine(t, path, Options{})
	e.checkpointer.close()
	e.checkpointer = newCheckpointer(e.checkpointer.conn, e.writer, true)
	execute(t, s, `INSERT INTO facts (name, value) VALUES ($1, $2)`, []byte("n"), []byte("v"))
	before := testenv.Must(os.ReadFile(path + "-wal"))(t)

	b, beside := openWithEngine(t, path, Options{Schema: Keep, Beside: true})
	testenv.OK(t, beside.err())
	execute(t, b, `INSERT INTO facts (name, value) VALUES ($1, $2)`, []byte("m"), []byte("w"))
	beside.writer.signalCommit()
	testenv.OK(t, b.Close())
	if after := testenv.Must(os.ReadFile(path + "-wal"))(t); !bytes.HasPrefix(after, before) || len(after) <= len(before) {
		t.Errorf("the log had %d bytes and has %d", len(before), len(after))
	}
	got, err := s.fact(t.Context(), "m")
	if err != nil || got != "w" {
		t.Errorf("the fact is %q, %v", got, err)
	}
}
