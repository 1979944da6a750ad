//go:build unix

package vfs

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

var (
	full         = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT}
	tooManyFiles = []syscall.Errno{syscall.EMFILE, syscall.ENFILE}
)

// openFile is os.Open for regular files. It does not wait for another process, as the opening of a
// named pipe does, and it does not ask whether the runtime can wait for the file, which it cannot
// for one on a disk. It returns ErrIrregular for another kind of file.
func openFile(name string) (*os.File, error) {
	for {
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err == nil {
			err = makeBlocking(fd)
		}
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), name), nil
		case !errors.Is(err, unix.EINTR):
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// makeBlocking makes a regular file's reads block, and closes any other file.
func makeBlocking(fd int) error {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrIrregular
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0)
	}
	if err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	return nil
}

// inode returns a file's identity without its birth.
func inode(name string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return "", &os.PathError{Op: "stat", Path: name, Err: err}
	}
	return fmt.Sprintf("inode %d device %d", st.Ino, st.Dev), nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotOpened, err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// linkNoReplace is Rename for systems without a rename that refuses to replace: link(2) refuses. A
// crash between the two steps leaves both names.
func linkNoReplace(oldname, newname string) error {
	if err := os.Link(oldname, newname); err != nil {
		return err
	}
	return os.Remove(oldname)
}

// CreateUnnamed creates a file in dir, opens it for reading and writing, and removes its name, so
// that its space is freed when it is closed or the process ends. A crash before the name is removed
// leaves a file that matches pattern, as defined by os.CreateTemp.
func CreateUnnamed(dir, pattern string) (*os.File, error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lockExclusive locks f without waiting; see flock(2).
func lockExclusive(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	if err != nil {
		return &os.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
	return nil
}

// unlock releases lockExclusive's lock, whatever other descriptors of f there are.
func unlock(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_UN); err != nil {
		return &os.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
	return nil
}
