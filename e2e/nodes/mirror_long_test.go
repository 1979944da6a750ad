//go:build long

package nodes

import (
	"testing"
	"time"

	"sluice/test/testenv"
)

// TestMirrorOfNodesLong is TestMirrorOfNodes with as many requests as there is time for.
func TestMirrorOfNodesLong(t *testing.T) {
	t.Parallel()
	mirrorOfNodes(t, 1<<40, 150, time.Now().Add(testenv.LongDuration(t)))
}
