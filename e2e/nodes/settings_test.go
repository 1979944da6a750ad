package nodes

import (
	"slices"
	"strings"
	"testing"

	"sluice/e2e"
)

// TestNodesWithDifferentSettings checks that a node does not start with other settings than a
// running one. Only the price may differ, and the node logs that as a warning. After all nodes have
// stopped, one can start with other settings immediately.
// Invariant 92.
func TestNodesWithDifferentSettings(t *testing.T) {
	t.Parallel()
	c := e2e.NewCluster(t, e2e.Options{})
	c.Start(1)
	for _, differs := range [][2]string{
		{"--garbage-grace", "30m0s"}, {"--receiver", "0x7a"}, {"--chain", "id=5"}, {"--chain", "asset=0x7b"}, {"--reads", "paid"},
	} {
		flags := append(c.Places(c.Database), differs[0], differs[1])
		if said := c.Refused(flags); !strings.Contains(said, differs[0]+" is ") || !strings.Contains(said, " at a node that runs") {
			t.Errorf("%s: %s", differs[0], said)
		}
	}
	o := c.Options
	o.Flags = append(slices.Clone(o.Flags), "--chunkset-price", "7")
	second := e2e.Start(t, o)
	second.Logged("another node has another price", "here=7 there=1")
	second.Stop()
	c.Nodes[0].Stop()
	o.Flags = append(c.Places(c.Database), "--garbage-grace", "30m")
	e2e.Start(t, o).Must(200, "GET", "/readyz", nil)
}
