package settings

import (
	"cmp"
	"strings"
	"testing"
)

// TestWordsAgreeWithDefaults checks that the words for the profiles' defaults are those defaults.
func TestWordsAgreeWithDefaults(t *testing.T) {
	asWritten := map[string]string{"": "required", "true": "on", "false": "off"}
	for _, s := range Table(&Configuration{}) {
		d := s.Value.defaults()
		if _, derived := s.Value.(boundLimits); derived || s.words == "" || d.local == "" && d.hosted == "" {
			continue
		}
		local, hosted, _ := strings.Cut(strings.ReplaceAll(s.words, ", ", "; "), "; ")
		wantLocal, wantHosted := cmp.Or(asWritten[d.local], d.local), cmp.Or(asWritten[d.hosted], d.hosted)
		if strings.TrimSuffix(local, " if local") != wantLocal || hosted != wantHosted+" if hosted" {
			t.Errorf("--%s: the words %q for %q and %q", s.Name, s.words, wantLocal, wantHosted)
		}
	}
}
