//go:build !linux

package testenv

// WithoutPrivileges runs fn. The tests are expected not to run as an administrator.
func WithoutPrivileges(fn func()) { fn() }
