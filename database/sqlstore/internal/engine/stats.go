package engine

import (
	"sync/atomic"
	"time"

	"sluice/internal/histogram"
)

// Stats are a DB's figures since it was opened. Each is exact, but together they are not a
// snapshot.
type Stats struct {
	Commits  *histogram.Histogram // seconds that a COMMIT took
	InDoubt  int64                // COMMITs that were not acknowledged in time, or had their response lost
	SQLite   *SQLiteStats         // nil on PostgreSQL
	Postgres *PostgresStats       // nil on SQLite
}

// SQLiteStats are the figures of SQLite.
type SQLiteStats struct {
	Queue         int                  // write calls that wait for a transaction
	Batches       *histogram.Histogram // calls of each transaction that was committed
	ReadWaits     int64                // reads that waited for a connection
	ReadWaitTime  time.Duration        // of these reads together
	DatabaseBytes int64                // size of the database's file; 0 if it cannot be read
	LogBytes      int64                // size of its log's file; 0 if there is none
}

// PostgresStats are the figures of PostgreSQL.
type PostgresStats struct {
	MaxConnections  int
	Idle, Used      int           // open connections
	Waits           int64         // acquisitions that waited for a connection
	WaitTime        time.Duration // of these acquisitions together
	MaxWriters      int           // write transactions that may run concurrently
	Writers         int           // write transactions that run, or wait for their COMMIT
	ConflictRetries int64         // attempts that were repeated after a conflict or a timeout
	LostRetries     int64         // attempts that were repeated after a lost connection
	Timeline        int64         // the newest primary's
	EndedOlder      int64         // connections that were closed because they led to an older primary
	EndedSilent     int64         // connections that were closed because their server hung
	LateCommits     int64         // COMMITs that an older primary confirmed too late to be acknowledged
}

// commitCounts are the figures that both engines have.
type commitCounts struct {
	seconds *histogram.Histogram
	inDoubt atomic.Int64
}

func newCommitCounts() *commitCounts { return &commitCounts{seconds: histogram.Seconds()} }
