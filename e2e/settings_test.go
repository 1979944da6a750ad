package e2e

import (
	"slices"
	"strings"
	"testing"
)

// TestNodesWithDifferentSettings checks that a node does not start with other settings than a
// running one. Only the price may differ, and the node logs that as a warning. After all nodes have
// stopped, one can start with other settings immediately.
func TestNodesWithDifferentSettings(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{})
	c.start(1)
	for _, differs := range [][2]string{
		{"--garbage-grace", "30m0s"}, {"--receiver", "0x7a"}, {"--asset", "0x7b"}, {"--micropayment-module", "0x7c"}, {"--chain-id", "5"}, {"--reads", "paid"},
	} {
		flags := append(c.places(c.database), differs[0], differs[1])
		if said := c.refused(flags); !strings.Contains(said, differs[0]+" is ") || !strings.Contains(said, " at a node that runs") {
			t.Errorf("%s: %s", differs[0], said)
		}
	}
	o := c.options
	o.flags = append(slices.Clone(o.flags), "--chunkset-price", "7")
	second := start(t, o)
	second.logged("another node has another price", "here=7 there=1")
	second.stop()
	c.nodes[0].stop()
	o.flags = append(c.places(c.database), "--garbage-grace", "30m")
	start(t, o).must(200, "GET", "/readyz", nil)
}
