//go:build !linux

package testenv

import "errors"

var errNoTmpfs = errors.New("tmpfs is a file system of Linux")

// MountTmpfs fails: there is no tmpfs here.
func MountTmpfs(string, string) error { return errNoTmpfs }

// Unmount fails: nothing can have been mounted.
func Unmount(string) error { return errNoTmpfs }

func checkRootMount() error { return errNoTmpfs }
