package engine

import (
	"errors"
	"os"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// classifySQLite returns the class of an SQLite result code.
func classifySQLite(err error) errorClass {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return classOther
	}
	switch e.Code() {
	case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE:
		return classUnique
	case sqlite3.SQLITE_IOERR_SHMSIZE: // the log's index cannot grow
		return classFull
	}
	switch e.Code() & 0xff { // the primary code
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return classBusy
	case sqlite3.SQLITE_FULL:
		return classFull
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return classCorrupt
	case sqlite3.SQLITE_IOERR:
		return classIO
	}
	return classOther
}

// sqliteClassifier returns classifySQLite for a database; probe tries to write in the database's
// folder. SQLite has a single code for all failed writes except on a full disk, and the driver does
// not return the system's error, so that an exceeded quota looks like a broken disk. Unlike a
// failed sync, a failed write loses nothing: SQLite rolls the transaction back as on a full disk.
// If the probe finds space, the class is unchanged.
func sqliteClassifier(probe func() error) func(error) errorClass {
	return func(err error) errorClass {
		var e *sqlite.Error
		if errors.As(err, &e) && e.Code() == sqlite3.SQLITE_IOERR_WRITE && noRoom(probe()) {
			return classFull
		}
		return classifySQLite(err)
	}
}

// probeSize is more than a single write of SQLite, so that a write that found no space is
// reproduced by the probe.
const probeSize = 256 << 10

func noRoom(err error) bool {
	return errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.ENOSPC)
}

// probeSpace writes and syncs a file in a folder and removes it.
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
