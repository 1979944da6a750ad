//go:build unix

package contexts

import (
	"fmt"
	"os"
)

// private returns an error if others than its owner may access a file that holds a key.
func private(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return fmt.Errorf("cannot read the API key: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("the file %s has a key, and others may access it (mode %04o): chmod 600 %s", name, mode, name)
	}
	return nil
}
