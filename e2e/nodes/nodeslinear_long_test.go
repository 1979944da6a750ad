//go:build long

package nodes

import (
	"testing"
	"time"

	"sluice/test/testenv"
)

// TestNodesAreLinearizableLong is TestNodesAreLinearizable with three times as many requests, again
// and again.
func TestNodesAreLinearizableLong(t *testing.T) {
	end := time.Now().Add(testenv.LongDuration(t))
	for again := true; again; again = time.Now().Before(end) && !t.Failed() {
		t.Run("", func(t *testing.T) { checkLinearizability(t, 360) })
	}
}
