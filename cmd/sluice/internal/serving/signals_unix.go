//go:build unix

package serving

import (
	"os/signal"
	"syscall"
)

// ignoreSignals ignores the signals for failed writes: SIGPIPE when the reader of
// the log is gone, SIGXFSZ when a file may not grow. The writes return errors.
func ignoreSignals() { signal.Ignore(syscall.SIGPIPE, syscall.SIGXFSZ) }
