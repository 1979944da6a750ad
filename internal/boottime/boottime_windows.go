package boottime

import (
	"time"

	"golang.org/x/sys/windows"
)

// The clock advances in steps of 10 to 16 ms: a sleep may be noticed that much later.
var system = clock{boot: windows.DurationSinceBoot, awake: awake}

func now() time.Duration { return system.now() }
