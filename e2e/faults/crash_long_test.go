//go:build long

package faults

import (
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestCrashLoopLong is TestCrashLoop for as long as make long sets.
func TestCrashLoopLong(t *testing.T) {
	t.Parallel()
	end := time.Now().Add(testenv.LongDuration(t))
	crashLoop(t, e2e.Options{}, func(done int) bool { return done == 0 || time.Now().Before(end) })
}
