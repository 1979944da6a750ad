package engine

import (
	"os"
	"time"
)

func (e *sqliteEngine) stats() Stats {
	w, r := e.writer, e.readers
	return Stats{
		Commits: w.commitCounts.seconds, InDoubt: w.commitCounts.inDoubt.Load(),
		SQLite: &SQLiteStats{
			Queue:         w.queued(),
			Batches:       w.batches,
			ReadWaits:     r.waits.Load(),
			ReadWaitTime:  time.Duration(r.waited.Load()),
			DatabaseBytes: fileSize(e.path),
			LogBytes:      fileSize(e.path + "-wal"),
		},
	}
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
