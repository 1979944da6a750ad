//go:build unix

package e2e

import "syscall"

// The signals that stop and continue a process.
const (
	StopSignal     = syscall.SIGSTOP
	ContinueSignal = syscall.SIGCONT
)

// setReceiveBuffer sets the size of a socket's receive buffer, in bytes.
func setReceiveBuffer(fd uintptr, size int) error {
	return syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, size)
}
