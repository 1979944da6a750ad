package arch

import (
	"regexp"
	"strconv"
	"testing"
)

var invariant = regexp.MustCompile(`(?m)^(\d+)\. .*\n(?:[ ]+.*\n)*`)

// TestEveryInvariantHasATest checks that the entries of docs/invariants.md are numbered without a
// gap and that each names a test. TestDocumentsNameExistingTests checks that the test exists.
func TestEveryInvariantHasATest(t *testing.T) {
	entries := invariant.FindAllStringSubmatch(textOf(t, "docs", "invariants.md"), -1)
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
