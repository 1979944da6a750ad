//go:build !linux

package folder_test

// withoutPrivileges runs fn. The tests are expected not to run as an administrator.
func withoutPrivileges(fn func()) { fn() }
