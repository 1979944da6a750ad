package client

import (
	"strings"
	"testing"

	"sluice/test/testenv"
)

// TestTemporaryNamesFit checks the names beside a file that has a name as long as eCryptfs permits
// with its encryption of names: 143 bytes.
func TestTemporaryNamesFit(t *testing.T) {
	const longest = 143
	for _, suffix := range []string{uploadStateSuffix, downloadStateSuffix, downloadPartSuffix} {
		for _, base := range []string{strings.Repeat("n", longest), strings.Repeat("é", longest/2)} {
			name := temporaryName(base, "target", suffix) + max(lockSuffix, replacementSuffix)
			testenv.Equal(t, len(name) <= longest && IsTemporary(name), true, "%q with %d bytes fits", name, len(name))
		}
	}
}
