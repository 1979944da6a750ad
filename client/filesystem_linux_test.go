package client

import "testing"

// TestReleasesWithASyncThatReportsErrors checks which releases of Linux have one.
func TestReleasesWithASyncThatReportsErrors(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]bool{
		"6.1.0-13-amd64": true, "5.8.0": true, "5.10-rc1": true, "10.0": true, "5.8": true,
		"5.7.19": false, "4.19.0": false, "5": false, "": false, "x.y": false,
	} {
		if got := syncReportsErrors(release); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}
