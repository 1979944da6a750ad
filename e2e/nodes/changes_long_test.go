//go:build long

package nodes

import (
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestChangesOfNodesLong is TestChangesOfNodes with 100,000 requests, or with as many as there is
// time for.
func TestChangesOfNodesLong(t *testing.T) {
	t.Parallel()
	changesOfNodes(t, e2e.FeedRequests, 4000, time.Now().Add(testenv.LongDuration(t)))
}
