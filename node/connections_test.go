package node

import (
	"math"
	"testing"

	"sluice/access/keys"
	"sluice/test/testenv"
)

// TestConnectionsFitIntoTheOpenFiles checks that with the maximum number of requests
// there is a file for each connection and each request.
func TestConnectionsFitIntoTheOpenFiles(t *testing.T) {
	for _, files := range []uint64{512, 1024, 4096, 8192, 20_000, 65_536, 1 << 20, math.MaxUint64} {
		for _, requests := range []int{1, 100, 4096, 1 << 30} {
			n := connectionsFor(files, requests)
			if n < 1 || n > maxConnections {
				t.Errorf("%d files, %d requests: %d connections", files, requests, n)
			}
			if taken := uint64(n + n/16 + min(n, requests) + keptFilesFor(files) + reservedFiles); taken > files {
				t.Errorf("%d files, %d requests: %d connections take %d files", files, requests, n, taken)
			}
		}
	}
	if got := connectionsFor(20_000, 4096); got < 12_000 {
		t.Errorf("20,000 files allow %d connections, want at least 12,000", got)
	}
	if got := connectionsFor(64, 4096); got < 1 {
		t.Errorf("64 files: %d connections", got)
	}
}

func TestConnectionsPerAddress(t *testing.T) {
	for _, test := range []struct {
		profile Profile
		chosen  int64
		want    int
	}{
		{Local, 0, 0},
		{Local, 7, 7},
		{Hosted, 0, 250},
		{Hosted, 7, 7},
		{Hosted, keys.Unlimited, 0},
	} {
		c := Config{Profile: test.profile, Limits: Limits{MaxConnectionsPerAddress: test.chosen}}
		testenv.Equal(t, c.connectionsPerAddress(1000), test.want, "%s, --max-connections-per-address %d", test.profile, test.chosen)
	}
}
