//go:build !unix

package secretfile

import "io/fs"

// CheckOwner does nothing, for the reason of Check.
func CheckOwner(string, fs.FileInfo) error { return nil }

// Check does nothing: this system protects a user's files by access control lists, which a folder
// passes on to its files.
func Check(string, fs.FileInfo) error { return nil }
