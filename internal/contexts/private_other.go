//go:build !unix

package contexts

// private does nothing: this system protects the files of a user by access control lists, which the
// folder for configuration passes on.
func private(string) error { return nil }
