package nodes

import (
	"testing"

	"sluice/e2e"
)

// TestVersionsOfTwoNodes has two nodes write and delete the same blobs at once, and kills one: each
// acknowledged commit is a version, once. In an account with locks, they also lock and delete
// versions: no locked one goes.
// Invariants 209, 216.
func TestVersionsOfTwoNodes(t *testing.T) {
	t.Parallel()
	for about, setting := range e2e.VersionSettings {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			c := e2e.NewCluster(t, e2e.Options{Dirty: true})
			c.Start(2)
			v := e2e.NewVersioners(t, c.Nodes, setting)
			v.Write(40)
			v.Check(c.Nodes[1])
			for range 2 {
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
				v.Check(c.Nodes[1])
				v.Write(10)
				for _, node := range c.Nodes {
					v.Check(node)
				}
			}
			for _, node := range c.Nodes {
				node.Stop()
			}
			e2e.CheckClean(t, c.Options.Wrapper, c.Places(c.Database)...)
		})
	}
}
