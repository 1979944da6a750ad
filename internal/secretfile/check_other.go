//go:build !unix

package secretfile

import "io/fs"

// CheckOwner does nothing, for the reason of Check.
func CheckOwner(string, fs.FileInfo) error { return nil }

// Check does nothing: this system protects the files of a user by access control lists, which a folder
// passes on to its files.
func Check(string, fs.FileInfo) error { return nil }
