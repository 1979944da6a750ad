//go:build !unix

package ephemeral

import "os"

// ours reports whether the path is a folder, and no link to one. The temporary folder belongs to
// this user.
func ours(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
