//go:build !linux

package testenv

// MemoryRoot returns "", for the default folder of temporary files.
func MemoryRoot() string { return "" }
