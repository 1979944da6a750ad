//go:build long

package faults

import (
	"testing"
	"time"

	"sluice/test/testenv"
)

// TestMirrorOfKilledServersLong is TestMirrorOfKilledServers with as many requests as there is time
// for.
func TestMirrorOfKilledServersLong(t *testing.T) {
	t.Parallel()
	mirrorOfKilledServers(t, 1<<40, 150, time.Now().Add(testenv.LongDuration(t)))
}
