//go:build long

package collect

import "testing"

// TestManyChannelsAreCollectedInTimeLong collects over 5,000 channels with the default number of
// concurrent calls.
func TestManyChannelsAreCollectedInTimeLong(t *testing.T) {
	collectsMany(t, 5_000, DefaultParallel)
}
