package e2e

import "syscall"

// Windows cannot stop a process: sending one of these signals fails the test that does.
const (
	StopSignal     = syscall.Signal(-1)
	ContinueSignal = syscall.Signal(-1)
)

// setReceiveBuffer sets the size of a socket's receive buffer, in bytes.
func setReceiveBuffer(fd uintptr, size int) error {
	return syscall.SetsockoptInt(syscall.Handle(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, size)
}
