package testenv

import "syscall"

// childAttributes returns the attributes for a child process that runs as u and receives the signal
// when the thread that started it ends.
func childAttributes(u *osUser, signal syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: signal, Credential: u.credential()}
}
