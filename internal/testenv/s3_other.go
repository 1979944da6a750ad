//go:build !linux

package testenv

import "syscall"

// dieWithParent does nothing: only Linux can end a child with its parent.
func dieWithParent() *syscall.SysProcAttr { return nil }
