package vfs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/windows"
)

// The invented syscall.Errno values match injected errors only.
var (
	full = []syscall.Errno{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED,
		syscall.ENOSPC, syscall.EDQUOT}
	tooManyFiles = []syscall.Errno{windows.ERROR_TOO_MANY_OPEN_FILES, syscall.EMFILE, syscall.ENFILE}
)

// openFile opens a file for reading so that it can be renamed and removed while it is open, which
// os.Open does not permit on Windows.
func openFile(name string) (*os.File, error) {
	return createFile(name, windows.GENERIC_READ, windows.OPEN_EXISTING, windows.FILE_ATTRIBUTE_NORMAL)
}

// CreateUnnamed creates a file in dir, opens it for reading and writing, and marks it for removal
// when it is closed or the process ends. A power failure may leave the file. Its name matches
// pattern as defined by os.CreateTemp.
func CreateUnnamed(dir, pattern string) (*os.File, error) {
	prefix, suffix, _ := strings.Cut(pattern, "*")
	return createFile(filepath.Join(dir, prefix+rand.Text()+suffix), windows.GENERIC_READ|windows.GENERIC_WRITE|windows.DELETE,
		windows.CREATE_NEW, windows.FILE_ATTRIBUTE_TEMPORARY|windows.FILE_FLAG_DELETE_ON_CLOSE)
}

func createFile(name string, access, mode, attributes uint32) (*os.File, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	handle, err := windows.CreateFile(path, access, share, nil, mode, attributes, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(handle), name), nil
}

// renameNoReplace calls MoveFileEx without MOVEFILE_REPLACE_EXISTING. It returns once the rename is
// written to the disk (MOVEFILE_WRITE_THROUGH).
func renameNoReplace(oldname, newname string) error {
	from, err := windows.UTF16PtrFromString(oldname)
	if err != nil {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: err}
	}
	to, err := windows.UTF16PtrFromString(newname)
	if err != nil {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: err}
	}
	if err := windows.MoveFileEx(from, to, windows.MOVEFILE_WRITE_THROUGH); err != nil {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: err}
	}
	return nil
}

// syncDir reports whether the folder exists: Windows cannot sync a folder. See the package
// documentation for the consequences.
func syncDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "sync", Path: dir, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotOpened, err)
	}
	return nil
}

// identity calls GetFileInformationByHandle.
func identity(name string) (_ string, err error) {
	f, err := openFile(name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &info); err != nil {
		return "", &os.PathError{Op: "stat", Path: name, Err: err}
	}
	index := uint64(info.FileIndexHigh)<<32 | uint64(info.FileIndexLow)
	return fmt.Sprintf("file %d volume %d born %d", index, info.VolumeSerialNumber, info.CreationTime.Nanoseconds()), nil
}

// statfs calls GetDiskFreeSpaceEx, which respects the user's quota. NTFS has no limit on inodes.
func statfs(dir string) (Space, error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return Space{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	var free, size, total uint64
	if err := windows.GetDiskFreeSpaceEx(path, &free, &size, &total); err != nil {
		return Space{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return Space{Size: int64(size), Free: int64(free)}, nil
}

// lockExclusive locks all of f without waiting; see LockFileEx.
func lockExclusive(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, math.MaxUint32, math.MaxUint32, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	if err != nil {
		return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return nil
}

// unlock leaves it to closing, which is enough here: no process inherits the handle.
func unlock(*os.File) error { return nil }

// NetworkFS returns "": it does not look at drives.
func NetworkFS(string) (string, error) { return "", nil }
