package localfs

import (
	"fmt"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

// contractError wraps the file system's error in the contract's error that it means.
func contractError(err error) error {
	switch {
	case vfs.IsFull(err):
		return fmt.Errorf("%w: %w", bytestore.ErrNoSpace, err)
	case vfs.IsTooManyFiles(err):
		return fmt.Errorf("%w: %w", bytestore.ErrOverloaded, err)
	}
	return err
}
