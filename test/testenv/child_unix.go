//go:build unix && !linux

package testenv

import "syscall"

// childAttributes returns the attributes for a child process that runs as u. Only Linux can signal
// it when its parent ends.
func childAttributes(u *osUser, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: u.credential()}
}
