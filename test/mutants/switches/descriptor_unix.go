//go:build unix

package switches

// descriptor is a file descriptor.
type descriptor = int

// noRecord is the descriptor of no file.
const noRecord descriptor = -1
