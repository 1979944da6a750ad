//go:build long

package faults

import (
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestChangesOfAKilledServerLong is TestChangesOfAKilledServer with 100,000 requests, or with as
// many as there is time for.
func TestChangesOfAKilledServerLong(t *testing.T) {
	t.Parallel()
	changesOfAKilledServer(t, e2e.FeedRequests, 4000, time.Now().Add(testenv.LongDuration(t)))
}
