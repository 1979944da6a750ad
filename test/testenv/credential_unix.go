//go:build unix

package testenv

import "syscall"

// credential returns the credential to run a process as u, or nil for a nil u.
func (u *osUser) credential() *syscall.Credential {
	if u == nil {
		return nil
	}
	return &syscall.Credential{Uid: u.uid, Gid: u.gid}
}
