package sqlstore

import (
	"errors"
	"time"
)

const (
	// checkpointEvery is how long after a commit the log is moved into the
	// database, so that readers find little in it and it stays short.
	checkpointEvery = 100 * time.Millisecond
	// truncateAfter is how long without a commit before the log's file is cut.
	truncateAfter = 2 * time.Second
	// maxLog is the number of pages (64 MiB) at which the log begins anew. With
	// steady readers it never does so by itself: each commit finds one of them
	// in it.
	maxLog = 16000
	// logStep is by how many pages the log grows before the next attempt, when
	// a long read did not let go of it.
	logStep = 4000
	// checkpointPatience is how long a checkpoint that needs the log for itself
	// waits for the reads in it. Writers wait with it.
	checkpointTimeout = 300 * time.Millisecond
	// settlePatience is how long an open waits for others that keep the log from
	// being emptied, settleEvery how often it is tried after that.
	emptyLogTimeout = 2 * time.Second
	emptyLogEvery   = time.Second
)

// checkpointer moves SQLite's log into the database in the background, on a
// connection of its own, so that the writer seldom has to.
type checkpointer struct {
	conn   *sqliteConn
	writer *writer
	health *health
	limit  int64 // pages of log at which it is to begin anew
	quit   chan struct{}
	done   chan struct{}
}

func newCheckpointer(c *sqliteConn, w *writer) *checkpointer {
	k := &checkpointer{conn: c, writer: w, health: w.health, limit: maxLog, quit: make(chan struct{}), done: make(chan struct{})}
	busy := k.emptyLog()
	for end := time.Now().Add(emptyLogTimeout); busy && time.Now().Before(end); {
		busy = k.emptyLog()
	}
	go k.loop()
	return k
}

// settle empties the log, before which a store acknowledges nothing. A process
// that failed to sync leaves a log of which some may be in memory alone: what is
// appended behind that would go with it. Once the log was moved into the
// database, and that was synced, all that was read at the start is on the disk,
// and a log that begins anew has nothing before it.
//
// It returns true when others were in the way. Everything else but an I/O error
// and damage, which health keeps, is tried again by the loop.
func (k *checkpointer) emptyLog() (busy bool) {
	t := &tx{conn: k.conn}
	var kept, log, moved integer
	_, err := t.row("PRAGMA wal_checkpoint(TRUNCATE)", nil, &kept, &log, &moved)
	switch {
	case err == nil && kept == 0:
		k.health.markReady()
		return false
	case err == nil:
		k.health.notReady(classBusy, errLogInUse)
		return true
	}
	f := k.conn.classifier(t.failed)
	if !k.health.observe(f, t.failed) {
		k.health.notReady(f, t.failed)
	}
	return f == classBusy
}

// errLogInUse: a checkpoint found others in the log.
var errLogInUse = errors.New("another process or a long read is using it")

func (k *checkpointer) close() {
	close(k.quit)
	<-k.done
}

func (k *checkpointer) loop() {
	defer close(k.done)
	for k.health.isStarting() {
		if !k.pause(emptyLogEvery) {
			return
		}
		k.emptyLog()
	}
	for k.writer.awaitCommit(k.quit) {
		if !k.pause(checkpointEvery) {
			return
		}
		k.checkpoint()
		if k.writer.idleFor(truncateAfter, k.quit) {
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

// checkpoint moves what it can without waiting for anybody, and has a log that
// became too long begin anew.
func (k *checkpointer) checkpoint() {
	log, _ := k.run("PRAGMA wal_checkpoint(PASSIVE)")
	if log < k.limit {
		k.limit = max(maxLog, min(k.limit, log+logStep))
		return
	}
	// SQLite waits for locks by looking again and again, and would hardly ever
	// find the short time between two batches.
	k.writer.batchMu.Lock()
	log, busy := k.run("PRAGMA wal_checkpoint(RESTART)")
	k.writer.batchMu.Unlock()
	k.limit = maxLog
	if busy {
		k.limit = max(maxLog, log+logStep)
	}
}

// run makes one checkpoint, and tells the pages of the log and whether others
// kept it from its end, which is made up for by the next. One that fails to
// write or sync stops the writer.
func (k *checkpointer) run(pragma string) (pages int64, kept bool) {
	t := &tx{conn: k.conn}
	var busy, log, moved integer
	if _, err := t.row(pragma, nil, &busy, &log, &moved); err != nil {
		k.health.observe(k.conn.classifier(t.failed), t.failed)
		return 0, true
	}
	return int64(log), busy != 0
}
