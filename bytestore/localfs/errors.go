package localfs

import (
	"fmt"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

// contractError wraps an error of the file system in the error of the contract
// that it means.
func contractError(err error) error {
	switch {
	case vfs.IsFull(err):
		return fmt.Errorf("%w: %w", bytestore.ErrNoSpace, err)
	case vfs.IsTooManyFiles(err):
		return fmt.Errorf("%w: %w", bytestore.ErrOverloaded, err)
	}
	return err
}
