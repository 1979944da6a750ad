package serving

import (
	"regexp"
	"strings"
	"testing"
)

// TestScreenOfAnOpenInstance checks that the commands on the first screen have an address that
// clients can use if the instance listens on all of them.
func TestScreenOfAnOpenInstance(t *testing.T) {
	for _, all := range []string{"0.0.0.0", "[::]"} {
		var out strings.Builder
		err := firstScreen{url: "http://" + all + ":9090", s3: "http://" + all + ":9000", console: true}.print(&out)
		if used := regexp.MustCompile(`//localhost:90|--host=localhost:90`).FindAllString(out.String(), -1); err != nil || len(used) != 10 || strings.Contains(out.String(), all) {
			t.Errorf("%d, %v\n%s", len(used), err, out.String())
		}
	}
}
