package switches

import "syscall"

// descriptor is a file's handle.
type descriptor = syscall.Handle

// noRecord is the handle of no file.
const noRecord = syscall.InvalidHandle
