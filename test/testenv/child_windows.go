package testenv

import "syscall"

// childAttributes returns the defaults: a process runs as its parent's user and outlives it.
func childAttributes(*osUser, syscall.Signal) *syscall.SysProcAttr { return nil }
