package nodes

import (
	"testing"

	"sluice/e2e"
)

// TestVersionsOfTwoNodes has two nodes write and delete the same blobs at once, and kills one: each
// acknowledged commit is a version, once.
// Invariant 209.
func TestVersionsOfTwoNodes(t *testing.T) {
	t.Parallel()
	c := e2e.NewCluster(t, e2e.Options{Dirty: true})
	c.Start(2)
	v := e2e.NewVersioners(t, c.Nodes)
	v.Write(40)
	v.Check(c.Nodes[1])
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		v.Write(100)
	}()
	before := v.Made()
	e2e.Await(t, "nothing is written", func() bool { return v.Made() > before+60 })
	c.Nodes[0].Kill()
	<-ended
	c.Nodes[0].Restart()
	v.Write(10)
	for _, node := range c.Nodes {
		v.Check(node)
	}
	for _, node := range c.Nodes {
		node.Stop()
	}
	e2e.CheckClean(t, c.Options.Wrapper, c.Places(c.Database)...)
}
