//go:build long

package faults

import (
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestSharedContentsSurviveKillsLong is TestSharedContentsSurviveKills for as long as make long
// sets.
func TestSharedContentsSurviveKillsLong(t *testing.T) {
	t.Parallel()
	end := time.Now().Add(testenv.LongDuration(t))
	sharedContents(t, e2e.Options{}, 2000, func(kills int) bool { return kills == 0 || time.Now().Before(end) })
}
