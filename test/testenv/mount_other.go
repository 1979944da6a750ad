//go:build !linux

package testenv

import "errors"

var errNoTmpfs = errors.New("only Linux has tmpfs")

// MountTmpfs always fails: only Linux has tmpfs.
func MountTmpfs(string, string) error { return errNoTmpfs }

// Unmount always fails: only Linux has tmpfs.
func Unmount(string) error { return errNoTmpfs }

func checkRootMount() error { return errNoTmpfs }
