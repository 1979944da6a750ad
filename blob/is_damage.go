package blob

import (
	"errors"
	"io"
	"syscall"

	"sluice/bytestore"
)

// isDamage reports whether a store's error says that bytes are missing or unreadable: any other
// error, such as an outage, says nothing about them.
func isDamage(err error) bool {
	for _, damage := range []error{io.EOF, bytestore.ErrNotFound, bytestore.ErrTruncated, syscall.EIO} {
		if errors.Is(err, damage) {
			return true
		}
	}
	return false
}
