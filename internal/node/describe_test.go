package node

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/metrics"
	"sluice/internal/testenv"
)

var update = flag.Bool("update", false, "write the table of metrics into docs/operations.md")

// The lines around the table of metrics.
const (
	tableBegins = "<!-- Metrics: go test -run TestTableOfMetrics ./internal/node -update -->\n"
	tableEnds   = "<!-- End of the metrics -->\n"
)

// TestTableOfMetrics checks that docs/operations.md has the code's table. With -update it
// writes the table.
func TestTableOfMetrics(t *testing.T) {
	root := testenv.Must(testenv.Root())(t)
	path := filepath.Join(root, "docs", "operations.md")
	text := testenv.Must(os.ReadFile(path))(t)
	before, rest, begins := strings.Cut(string(text), tableBegins)
	have, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		t.Fatalf("%s has no table of metrics", path)
	}
	want := tableOf(DescribeMetrics())
	if have == want {
		return
	}
	if !*update {
		t.Fatalf("the table of metrics is not current: run the command above it. It must be\n%s", want)
	}
	testenv.OK(t, os.WriteFile(path, []byte(before+tableBegins+want+tableEnds+after), 0o644))
}

// maxValues is how many values of one label are listed at most.
const maxValues = 20

// tableOf returns a Markdown table.
func tableOf(list []metrics.Metric) string {
	var b strings.Builder
	b.WriteString("\n| Metric | Type | Meaning |\n|---|---|---|\n")
	for _, m := range list {
		help := m.Help
		switch {
		case len(m.Values) > maxValues:
			help += " `" + m.Label + "`: as in [the protocol](protocol.md)."
		case m.Label != "":
			help += " `" + m.Label + "`: " + strings.Join(m.Values, ", ") + "."
		}
		b.WriteString("| `" + m.Name + "` | " + string(m.Type) + " | " + help + " |\n")
	}
	return b.String() + "\n"
}
