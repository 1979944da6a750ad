package httpconn

import (
	"io"
	"syscall"
)

// Positioned is a source in a shared file: it has an offset of its own, and the file's position is
// not used. ReadFrom advances it by Seek.
type Positioned interface {
	io.ReadSeeker
	// Position returns the file, and the offset at which the next Read begins. It is nil if the
	// kernel cannot send the file.
	Position() (file syscall.RawConn, offset int64)
}
