//go:build unix

package secretfile

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// CheckOwner returns an error, with the remedy, if another user than this one and root owns a file.
func CheckOwner(name string, info fs.FileInfo) error {
	if s, known := info.Sys().(*syscall.Stat_t); known && s.Uid != 0 && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("the file %s belongs to another user: remove it, or name another file", name)
	}
	return nil
}

// Check returns an error, with the remedy, if users other than its owner may access a file. If root
// owns it, this process's group may read it.
func Check(name string, info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 && !forGroup(info) {
		return fmt.Errorf("the file %s has a key, and others may access it (mode %04o): chmod 600 %s", name, mode, name)
	}
	return nil
}

// forGroup reports whether root owns a file, its group is this process's and may only read it, and
// no other user may access it. Kubernetes mounts the files of a Secret so.
func forGroup(info fs.FileInfo) bool {
	s, known := info.Sys().(*syscall.Stat_t)
	return known && s.Uid == 0 && int(s.Gid) == os.Getegid() && info.Mode().Perm()&0o037 == 0
}
