package instances

import (
	"strings"
	"testing"

	"sluice/instance"
	"sluice/test/testenv"
)

// TestProgressOfAPipe checks that no progress is printed where there is no terminal, and messages
// are.
func TestProgressOfAPipe(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		var out strings.Builder
		p := newProgress(&out, quiet)
		p.update(instance.Progress{Phase: instance.PhaseBytes, Total: 10})
		p.update(instance.Progress{Phase: instance.PhaseBytes, Done: 10, Total: 10, Ended: true})
		p.message("complaint")
		p.Close()
		testenv.Equal(t, out.String(), "sluice: complaint\n", "printed")
	}
}
