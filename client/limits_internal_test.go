package client

import (
	"testing"

	"sluice/blob"
)

// TestLimitsOfTheService checks that the client, which does not import the service, has its limits.
func TestLimitsOfTheService(t *testing.T) {
	for name, limits := range map[string][2]int64{
		"bytes of a blob":    {maxBlobSize, blob.MaxSize},
		"bytes of a part":    {maxPartSize, blob.MaxPartSize},
		"parts of an upload": {maxParts, blob.MaxParts},
	} {
		if limits[0] != limits[1] {
			t.Errorf("%s: %d in the client, %d in the service", name, limits[0], limits[1])
		}
	}
}
