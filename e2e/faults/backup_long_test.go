//go:build long

package faults

import (
	"testing"
	"time"

	"sluice/test/testenv"
)

// TestBackupUnderLoadLong is TestBackupUnderLoad with kills of both at each tenth, for as long as
// make long sets.
func TestBackupUnderLoadLong(t *testing.T) {
	t.Parallel()
	var kills []kill
	for tenths := 1; tenths < 10; tenths++ {
		kills = append(kills, kill{tenths, true}, kill{tenths, false})
	}
	for end := time.Now().Add(testenv.LongDuration(t)); ; {
		backupUnderLoad(t, kills)
		if t.Failed() || time.Now().After(end) {
			return
		}
	}
}
