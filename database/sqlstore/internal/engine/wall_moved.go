//go:build tuned

package engine

import (
	"os"
	"time"
)

// wallTime returns the time by the machine's wall clock, moved by the duration in the file that the
// environment variable SLUICE_TEST_CLOCK names. Only tests build it: no library moves the clock of
// a Go program, which asks the kernel without the C library.
func wallTime() time.Time {
	file := os.Getenv("SLUICE_TEST_CLOCK")
	if file == "" {
		return time.Now()
	}
	text, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	ahead, err := time.ParseDuration(string(text))
	if err != nil {
		panic(err)
	}
	return time.Now().Add(ahead)
}
