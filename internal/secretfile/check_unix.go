//go:build unix

package secretfile

import (
	"fmt"
	"io/fs"
)

// Check returns an error, with the remedy, if others than its owner may access a file.
func Check(name string, info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("the file %s has a key, and others may access it (mode %04o): chmod 600 %s", name, mode, name)
	}
	return nil
}
