package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"sluice/internal/testenv"
)

var invariant = regexp.MustCompile(`(?m)^(\d+)\. .*\n(?:[ ]+.*\n)*`)

// TestEveryInvariantHasATest checks that the entries of docs/invariants.md are numbered without a
// gap and that each names a test. TestDocumentsNameExistingTests checks that the test exists.
func TestEveryInvariantHasATest(t *testing.T) {
	root, err := testenv.Root()
	testenv.OK(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs", "invariants.md"))
	testenv.OK(t, err)
	entries := invariant.FindAllStringSubmatch(string(text), -1)
	if len(entries) < 100 {
		t.Errorf("only %d invariants were found", len(entries))
	}
	for i, entry := range entries {
		if entry[1] != strconv.Itoa(i+1) {
			t.Errorf("invariant %s follows number %d", entry[1], i)
		}
		if !testName.MatchString(entry[0]) {
			t.Errorf("invariant %s names no test", entry[1])
		}
	}
}
