package engine

import (
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// commitRefused reports whether COMMIT's error, of class f, proves that the transaction has not
// taken effect and will not do so after a crash. For every other error the outcome is unknown.
//
// In WAL mode, COMMIT writes the transaction's frames to the log, the last of them with the commit
// mark, syncs the log, and enters the frames in the log's index (the file -shm). A crash loses the
// index, and recovery reads only the log: it restores the transaction from a frame with the mark
// and a valid chain of checksums, whether or not COMMIT succeeded. ROLLBACK does not change the
// file. The outcome depends on whether the last frame may be complete:
//
//	code                            cause                              last frame         outcome
//	BUSY                            a lock before the first frame      not written        refused
//	FULL                            a write to the log                 incomplete         refused
//	IOERR_WRITE, quota exceeded     a write to the log                 incomplete         refused
//	IOERR_WRITE otherwise           a write to the log                 up to the kernel   unknown
//	IOERR_READ, IOERR_SHORT_READ    checksums that are rewritten       perhaps complete   unknown
//	IOERR_FSYNC, IOERR_DIR_FSYNC    the sync of the log                complete           unknown
//	IOERR_SHMSIZE, IOERR_SHMMAP     the index cannot grow              complete           unknown
//	IOERR_SHMOPEN, IOERR_SHMLOCK    the index                          perhaps complete   unknown
//	IOERR_NOMEM, NOMEM              memory, before or after the sync   perhaps complete   unknown
//	CORRUPT                         the log or its index is damaged    perhaps complete   unknown
//	PROTOCOL, LOCKED, READONLY      the lock or the index              perhaps complete   unknown
//	all others                                                         perhaps complete   unknown
//
// FULL is a proof because SQLite writes nothing between the last frame and the sync: the database
// is opened with psow=1, without which SQLite would repeat the complete frame up to a disk sector's
// end. The incomplete frames end the log until the next transaction overwrites them.
//
// Frames that a large transaction writes before its COMMIT have no mark, so that errors of
// other statements leave no trace.
func commitRefused(f errorClass, err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff { // the primary code
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL:
		return true
	}
	return f == classFull && e.Code() == sqlite3.SQLITE_IOERR_WRITE
}
