package cli

import (
	"strings"
	"testing"
)

// TestConfirmation checks which responses to a question are yes.
func TestConfirmation(t *testing.T) {
	for response, yes := range map[string]bool{"y\n": true, "YES\n": true, "y": true, "\n": false, "": false, "n\n": false, "yesterday\n": false} {
		var out strings.Builder
		err := askOn(strings.NewReader(response), &out, "Delete 2 blobs (3 B)?")
		if (err == nil) != yes || out.String() != "Delete 2 blobs (3 B)? [y/N] " {
			t.Errorf("%q: %v, %q", response, err, out.String())
		}
		if err != nil && (err.Error() != "nothing was changed" || ExitCode(err) != ExitFailed) {
			t.Errorf("%q: %v", response, err)
		}
	}
}
