//go:build unix

package settings

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// asOwner makes root go on as a data folder's owner, so that the server's user can use the files
// that the command creates there. It must follow everything that only root can read.
func asOwner(data string) error {
	info, err := os.Stat(data)
	if err != nil || os.Geteuid() != 0 {
		return nil //nolint:nilerr // there is no folder yet, which the command reports
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	if !known || owner.Uid == 0 {
		return nil
	}
	uid, gid := int(owner.Uid), int(owner.Gid)
	if err := errors.Join(syscall.Setgroups([]int{gid}), syscall.Setgid(gid), syscall.Setuid(uid)); err != nil {
		return fmt.Errorf("cannot use %s as its owner, user %d: %w", data, uid, err)
	}
	return nil
}
