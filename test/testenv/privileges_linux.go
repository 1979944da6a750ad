package testenv

import (
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// WithoutPrivileges runs fn as a user that may not read every folder, even if the tests run as
// root. fn must do its work in its own goroutine.
func WithoutPrivileges(fn func()) {
	var done sync.WaitGroup
	done.Go(func() {
		runtime.LockOSThread() // and never unlocked, so the thread ends with the goroutine
		const nobody = 65534
		_, _ = unix.SetfsuidRetUid(nobody) // it has no effect unless the tests run as root
		fn()
	})
	done.Wait()
}
