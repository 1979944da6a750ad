// Package datadir knows a data folder's layout: its files, their permissions, and how it is locked.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sluice/internal/vfs"
)

// A data folder's parts, as names in it.
const (
	Database = "meta.db" // SQLite, with its -wal and -shm files
	Bytes    = "bytes"   // the extents, if they are stored in files
	Staging  = "staging" // extents being uploaded to an object store
	Returns  = "returns" // charges for responses that were cut off, to be refunded

	secretKey = "secret-key" // see SecretKeyFile

	recordFile = Database + "-record" // which file is the database; see Trust
	recordNew  = recordFile + ".new"  // is renamed to recordFile

	lockFile    = "lock"        // locked while a process uses the folder
	serverLock  = "server-lock" // locked while that process is a server, and before it locks lockFile
	ballastFile = "ballast"     // see Ballast

)

// ErrInUse is returned by Open when another process has locked the folder.
var ErrInUse = errors.New("is in use by another sluice")

// ErrServed is returned by OpenForServer when a server has locked the folder.
var ErrServed = errors.New("is in use by a running server")

// Dir is a data folder that is locked for this process. The caller must Close it.
type Dir struct {
	path   string
	lock   *vfs.Lock
	server *vfs.Lock // nil unless OpenForServer has opened the folder, and after Leave
	bytes  *vfs.Lock // for the bytes' folder; nil until LockBytes
}

// Open creates the data folder if it does not exist, and locks it. It returns ErrInUse if another
// process has it locked, and an error if the folder contains other files: a mistyped name must not
// fill a home folder. The lock ends with the process, however that ends.
func Open(path string) (*Dir, error) {
	if err := prepare(path); err != nil {
		return nil, err
	}
	lock, err := vfs.LockFile(filepath.Join(path, lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("the data folder %s %w: stop that process, or name another folder with --data DIR", path, ErrInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot lock the data folder %s: %w", path, err)
	}
	return &Dir{path: path, lock: lock}, nil
}

// OpenForServer is Open for a server. If another server has locked the folder and has not called
// Leave, it returns ErrServed, and not ErrInUse as for a command that ends soon.
func OpenForServer(path string) (*Dir, error) {
	if err := prepare(path); err != nil {
		return nil, err
	}
	// A server that has the folder has this lock, too, and loses both when its process ends.
	server, err := vfs.LockFile(filepath.Join(path, serverLock))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("the data folder %s %w: stop that server, or name another folder with --data DIR", path, ErrServed)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot lock the data folder %s: %w", path, err)
	}
	d, err := Open(path)
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	d.server = server
	return d, nil
}

// Leave announces that this server is about to Close the folder: for another server's OpenForServer
// it is now like a command that ends soon.
func (d *Dir) Leave() error {
	if d.server == nil {
		return nil
	}
	err := d.server.Close()
	d.server = nil
	return err
}

// Unused reports whether the folder at path does not exist, or has nothing in it.
func Unused(path string) bool {
	entries, err := os.ReadDir(path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0
}

// InUse reports whether a process has the data folder at path locked. It is false if that cannot be
// found out, such as without the right to lock the folder, which it does for a moment.
func InUse(path string) bool {
	name := filepath.Join(path, lockFile)
	if _, err := os.Stat(name); err != nil { // LockFile would create it
		return false
	}
	lock, err := vfs.LockFile(name)
	if err == nil {
		err = lock.Close()
	}
	return errors.Is(err, vfs.ErrLocked)
}

// writeFile creates a file, or replaces its content, and syncs it.
func writeFile(name, text string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Close unlocks the folder, and the bytes if they are locked.
func (d *Dir) Close() error {
	var err error
	if d.bytes != nil {
		err = d.bytes.Close()
	}
	return errors.Join(err, d.lock.Close(), d.Leave())
}

// Path returns the path to a part.
func (d *Dir) Path(part string) string { return filepath.Join(d.path, part) }

// CreateDatabase creates the database's file if it does not exist, and reports whether it has. The
// mode is 0600: it contains ids that are credentials. SQLite creates its other files with the same
// mode. When the database is created, the caller must call RecordWhole, or Sync.
func (d *Dir) CreateDatabase() (created bool, err error) {
	f, err := os.OpenFile(d.Path(Database), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot create the database: %w", err)
	}
	return true, f.Close()
}

// Sync makes the folder's entries durable.
func (d *Dir) Sync() error {
	if err := vfs.OS().SyncDir(d.path); err != nil {
		return fmt.Errorf("cannot sync the data folder: %w", err)
	}
	return nil
}

// SecretKeyFile returns the path to the file with the key that seals secrets in the folder's
// database. Backups do not have it.
func SecretKeyFile(path string) string { return filepath.Join(path, secretKey) }

// HasDatabase reports whether there is a database in the folder at path.
func HasDatabase(path string) bool {
	_, err := os.Stat(filepath.Join(path, Database))
	return !errors.Is(err, fs.ErrNotExist)
}

// ErrNoInstance is returned by Require if the folder lacks a part.
var ErrNoInstance = errors.New("it is not the data folder of an instance")

// Require returns ErrNoInstance unless all parts exist in the folder at path.
func Require(path string, parts ...string) error {
	for _, part := range parts {
		_, err := os.Stat(filepath.Join(path, part))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no data in the folder %s, which has no %s: %w", path, part, ErrNoInstance)
		}
		if err != nil {
			return fmt.Errorf("cannot read the data folder: %w", err)
		}
	}
	return nil
}

// prepare creates the folder, or checks that it is a data folder or empty.
func prepare(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if err := vfs.MkdirAll(vfs.OS(), path); err != nil {
		return fmt.Errorf("cannot create the data folder: %w", err)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("cannot read the data folder: %w", err)
	}
	foreign := ""
	for _, e := range entries {
		switch e.Name() {
		case Database:
			return nil
		case lockFile, serverLock, recordFile, recordNew, ballastFile, Bytes, Staging, Returns, secretKey, "lost+found":
			// a first start that was interrupted
		default:
			foreign = e.Name()
		}
	}
	if foreign != "" {
		return fmt.Errorf("the folder %s is not a data folder (it contains %q): name another with --data DIR", path, foreign)
	}
	return nil
}
