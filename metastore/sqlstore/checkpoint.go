package sqlstore

import "time"

const (
	// checkpointEvery is how long after a commit the log is moved into the
	// database, so that readers find little in it and it stays short.
	checkpointEvery = 100 * time.Millisecond
	// truncateAfter is how long without a commit before the log's file is cut.
	truncateAfter = 2 * time.Second
)

// checkpointer moves SQLite's log into the database in the background, on a
// connection of its own, so that the writer seldom has to.
type checkpointer struct {
	conn   *conn
	writer *writer
	quit   chan struct{}
	done   chan struct{}
}

func newCheckpointer(c *conn, w *writer) *checkpointer {
	k := &checkpointer{conn: c, writer: w, quit: make(chan struct{}), done: make(chan struct{})}
	go k.loop()
	return k
}

func (k *checkpointer) close() {
	close(k.quit)
	<-k.done
}

func (k *checkpointer) loop() {
	defer close(k.done)
	for k.writer.committed(k.quit) {
		if !k.pause(checkpointEvery) {
			return
		}
		k.run("PRAGMA wal_checkpoint(PASSIVE)")
		if k.writer.quiet(truncateAfter, k.quit) {
			k.run("PRAGMA wal_checkpoint(TRUNCATE)")
		}
	}
}

// pause waits for d; false at once when the checkpointer is closed.
func (k *checkpointer) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-k.quit:
		return false
	}
}

// run makes one checkpoint. One that finds the log in use is made up for by the
// next; one that fails to write or sync stops the writer.
func (k *checkpointer) run(pragma string) {
	t := &tx{conn: k.conn}
	var busy, log, moved integer
	if _, err := t.row(pragma, nil, &busy, &log, &moved); err != nil && k.conn.classify(t.failed) == faultIO {
		k.writer.stopFor(t.failed)
	}
}
