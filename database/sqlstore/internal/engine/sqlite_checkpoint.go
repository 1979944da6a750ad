package engine

import (
	"errors"
	"math"
	"time"
)

const (
	// checkpointEvery is the delay between a commit and the checkpoint that moves the log
	// into the database. A short log keeps reads fast.
	checkpointEvery = 100 * time.Millisecond
	// truncateAfter is the time without a commit after which the checkpointer truncates the log's
	// file.
	truncateAfter = 2 * time.Second
	// maxLog is the number of pages (64 MiB) at which the log is restarted. With steady
	// reads SQLite never does that by itself, because there is always a read that uses it.
	maxLog = 16000
	// logStep is the number of pages by which the log grows before the next attempt, if a
	// long read prevented the last one.
	logStep = 4000
	// restartBelow is the number of pages (4 MiB) that may have to be moved when the log is
	// restarted. Writes wait for that.
	restartBelow = 1000
	// checkpointTimeout is how long a checkpoint that restarts the log waits for reads. Writes wait
	// for it.
	checkpointTimeout = 80 * time.Millisecond
	// emptyLogTimeout is how long an open waits for other users of the log before it
	// stops trying to empty it, emptyLogEvery how often that is retried afterwards.
	emptyLogTimeout = 2 * time.Second
	emptyLogEvery   = time.Second
)

// checkpointer moves the log into the database in the background, on its own connection,
// so that the writer rarely has to.
type checkpointer struct {
	conn   *sqliteConn
	writer *writer
	health *health
	limit  int64 // number of pages at which the log is restarted
	quit   chan struct{}
	done   chan struct{}
}

// newCheckpointer empties the log and begins to move it into the database, unless that is left to
// another process.
func newCheckpointer(c *sqliteConn, w *writer, beside bool) *checkpointer {
	k := &checkpointer{conn: c, writer: w, health: w.health, limit: maxLog, quit: make(chan struct{}), done: make(chan struct{})}
	if beside {
		k.health.markReady()
		close(k.done)
		return k
	}
	busy := k.emptyLog()
	for end := time.Now().Add(emptyLogTimeout); busy && time.Now().Before(end); {
		busy = k.emptyLog()
	}
	go k.loop()
	return k
}

// emptyLog moves the whole log into the database. Before that, a store acknowledges nothing: a
// process that failed to sync leaves a log that may be partly in the kernel's memory only, and a
// crash would lose everything appended to it. After the checkpoint, which syncs the database, all
// that the store has read is on disk, and the log is empty.
//
// It reports whether other connections were using the log. The loop retries after every error but
// an I/O error and damage, which health records.
func (k *checkpointer) emptyLog() (busy bool) {
	t := &Tx{conn: k.conn}
	var inUse, log, moved Integer
	_, err := t.Row("PRAGMA wal_checkpoint(TRUNCATE)", nil, &inUse, &log, &moved)
	switch {
	case err == nil && inUse == 0:
		k.health.markReady()
		return false
	case err == nil:
		k.health.notReady(classBusy, errLogInUse)
		return true
	}
	f := k.conn.classify(t.failed)
	if !k.health.observe(f, t.failed) {
		k.health.notReady(f, t.failed)
	}
	return f == classBusy
}

// errLogInUse is the reason why a checkpoint could not empty the log.
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

// pause waits for d. It returns false immediately when the checkpointer is closed.
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

// checkpoint moves pages that no read uses from the log into the database without waiting, and
// restarts a log that has become too long, unless a long read would make that wait in vain.
func (k *checkpointer) checkpoint() {
	c := k.run("PRAGMA wal_checkpoint(PASSIVE)")
	if c.pages < k.limit {
		k.limit = max(maxLog, min(k.limit, c.pages+logStep))
		return
	}
	// Pages that were written meanwhile are moved the same way, while each round has less to move.
	for written := int64(math.MaxInt64); ; {
		if c.prevented || c.pages-c.moved > restartBelow {
			k.limit = c.pages + logStep
			return
		}
		next := k.run("PRAGMA wal_checkpoint(PASSIVE)")
		more := next.pages - c.pages
		c = next
		if more <= restartBelow || more >= written {
			break
		}
		written = more
	}
	// SQLite waits for locks by polling, and would rarely find the short time between two
	// batches.
	k.writer.batchMu.Lock()
	c = k.run("PRAGMA wal_checkpoint(RESTART)")
	k.writer.batchMu.Unlock()
	k.limit = maxLog
	if c.prevented {
		k.limit = max(maxLog, c.pages+logStep)
	}
}

// checkpointResult is a checkpoint's result.
type checkpointResult struct {
	pages, moved int64 // the log's, and how many the database has
	prevented    bool  // other connections prevented its completion
}

// run makes a checkpoint. The next one completes an incomplete one. A failed write or sync stops
// the writer.
func (k *checkpointer) run(pragma string) checkpointResult {
	t := &Tx{conn: k.conn}
	var busy, log, moved Integer
	if _, err := t.Row(pragma, nil, &busy, &log, &moved); err != nil {
		k.health.observe(k.conn.classify(t.failed), t.failed)
		return checkpointResult{prevented: true}
	}
	return checkpointResult{pages: int64(log), moved: int64(moved), prevented: busy != 0}
}
