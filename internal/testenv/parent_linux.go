package testenv

import "syscall"

// endsWithParent has a child get a signal when the thread that started it ends.
func endsWithParent(signal syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: signal}
}
