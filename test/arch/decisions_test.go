package arch

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var tableRow = regexp.MustCompile(`(?m)^\|.*\n`)

// TestDecisionsAreShort checks that a decision has at most 400 words, without tables.
func TestDecisionsAreShort(t *testing.T) {
	const limit = 400
	found := 0
	for _, d := range documents(t) {
		if filepath.Dir(d.file) != filepath.Join("docs", "decisions") {
			continue
		}
		found++
		if words := len(strings.Fields(tableRow.ReplaceAllString(d.text, ""))); words > limit {
			t.Errorf("%s has %d words, want at most %d", d.file, words, limit)
		}
	}
	if found < 30 {
		t.Errorf("only %d decisions were found", found)
	}
}
