//go:build long

package nodes

import (
	"testing"
	"time"

	"sluice/test/testenv"
)

// TestHealsSurviveKillsLong is TestHealsSurviveKills for as long as make long sets.
func TestHealsSurviveKillsLong(t *testing.T) {
	t.Parallel()
	end := time.Now().Add(testenv.LongDuration(t))
	healsSurviveKills(t, func(rounds int) bool { return rounds == 0 || time.Now().Before(end) })
}
