package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sluice/internal/vfs"
)

// bytesLock is a file in the bytes' folder that is locked like lockFile, because several data
// folders can reach the same bytes, by links or mounts. No object has a name with a dot.
const bytesLock = "sluice.lock"

// LockBytes creates the bytes' folder if it does not exist, and locks it until Close. It returns
// ErrInUse if another process has locked it, by any path.
func (d *Dir) LockBytes() error {
	path := d.Path(Bytes)
	absolute, err := filepath.Abs(path)
	if err == nil {
		err = vfs.MkdirAll(vfs.OS(), absolute)
	}
	if err != nil {
		return fmt.Errorf("cannot create the folder of the bytes: %w", err)
	}
	if d.bytes, err = vfs.LockFile(filepath.Join(path, bytesLock)); err == nil {
		return nil
	}
	if !errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("cannot lock the bytes in %s: %w", path, err)
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return fmt.Errorf("the folder %s with the bytes of this data folder %w, from another data folder: stop that process, and give each data folder bytes of its own", path, ErrInUse)
}

// BytesElsewhere reports whether the bytes are reached through a symbolic link or a mount point in
// the data folder at path, so that a copied folder may share them with its original.
func BytesElsewhere(path string) (bool, error) {
	bytes := filepath.Join(path, Bytes)
	entry, err := os.Lstat(bytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("cannot read the data folder: %w", err)
	case entry.Mode().Type() != fs.ModeDir:
		return true, nil
	default:
		return isMountPoint(path, bytes)
	}
}
