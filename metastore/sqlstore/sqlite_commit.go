package sqlstore

import (
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// commitRefused reports whether an error of COMMIT, of the meaning f, proves
// that the transaction is not there and will not be after a crash. Of every
// other error the outcome is unknown.
//
// In WAL mode a COMMIT writes the frames of the transaction to the log, the
// last of them with the commit mark; syncs the log; and enters the frames in
// the log's index, which is the file -shm. A crash loses the index and reads
// the log alone: from a frame with the mark whose checksum follows from those
// before it, recovery makes the transaction anew, whether or not COMMIT
// succeeded. ROLLBACK does not touch the file. So what counts is whether the
// last frame may be whole:
//
//	code                             comes from                          last frame  class
//	BUSY                             a lock before the first frame       not begun   refused
//	FULL                             a write to the log                  cut         refused
//	IOERR_WRITE, the quota used up   a write to the log                  cut         refused
//	IOERR_WRITE otherwise            a write to the log                  cut, if the kernel knows  unknown
//	IOERR_READ, IOERR_SHORT_READ     checksums that are written anew     perhaps     unknown
//	IOERR_FSYNC, IOERR_DIR_FSYNC     the sync of the log                 whole       unknown
//	IOERR_SHMSIZE, IOERR_SHMMAP      the index cannot grow               whole       unknown
//	IOERR_SHMOPEN, IOERR_SHMLOCK     the index                           perhaps     unknown
//	IOERR_NOMEM, NOMEM               memory, before or after the sync    perhaps     unknown
//	CORRUPT                          the log or its index is damaged     perhaps     unknown
//	PROTOCOL, LOCKED, READONLY       the lock or the index               perhaps     unknown
//	every other                                                          perhaps     unknown
//
// FULL proves it because the write of the last frame is the last write before
// the sync: the database is opened with psow=1, without which SQLite would
// repeat the frame up to the end of a disk sector after it is whole. What such
// a COMMIT left in the log is overwritten by the next transaction, and until
// then ends the log at the cut.
//
// Frames that a large transaction writes ahead of its COMMIT have no mark:
// errors of other statements leave nothing.
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
