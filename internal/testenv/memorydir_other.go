//go:build !linux

package testenv

// memoryRoot returns "", for the default folder of temporary files.
func memoryRoot() string { return "" }
