package load

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// preciseSleep sleeps for d. It is late by about 0.1 ms, where the runtime's timers may be late by
// 1 ms.
func preciseSleep(d time.Duration) {
	left := unix.NsecToTimespec(int64(d))
	for errors.Is(unix.Nanosleep(&left, &left), unix.EINTR) { // a signal; the rest is left
	}
}
