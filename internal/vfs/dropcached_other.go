//go:build !linux

package vfs

// DropCached does nothing: it is a hint.
func DropCached(File, int64, int64) {}
