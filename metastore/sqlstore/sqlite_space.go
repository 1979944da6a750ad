package sqlstore

import (
	"errors"
	"os"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// probeSize is more than SQLite writes at once, so that what it found no room
// for finds none here.
const probeSize = 256 << 10

// sqliteFaults is sqliteFault for a database beside which probe tries to write.
// SQLite has one code for all failed writes but those for which the disk is
// full, and the driver does not tell the system's error: a quota that is
// used up looks like a broken disk. Nothing is lost by a failed write, other
// than by a failed sync: SQLite undoes the transaction as it does when the disk
// is full. When the probe finds room the error stays what it is.
func sqliteClassifier(probe func() error) func(error) errorClass {
	return func(err error) errorClass {
		var e *sqlite.Error
		if errors.As(err, &e) && e.Code() == sqlite3.SQLITE_IOERR_WRITE && noRoom(probe()) {
			return classFull
		}
		return classifySQLite(err)
	}
}

func noRoom(err error) bool {
	return errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.ENOSPC)
}

// probeSpace writes and syncs a file in a folder, and removes it.
func probeSpace(dir string) (err error) {
	f, err := os.CreateTemp(dir, ".space-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if _, err := f.Write(make([]byte, probeSize)); err != nil {
		return err
	}
	return f.Sync()
}
