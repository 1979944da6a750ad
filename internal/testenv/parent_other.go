//go:build !linux

package testenv

import "syscall"

// endsWithParent cannot have a child end with its parent here.
func endsWithParent(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
