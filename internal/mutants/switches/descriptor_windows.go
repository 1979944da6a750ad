package switches

import "syscall"

// descriptor is the handle of a file.
type descriptor = syscall.Handle

// noRecord is the handle of no file.
const noRecord = syscall.InvalidHandle
