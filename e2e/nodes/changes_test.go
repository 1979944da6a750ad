package nodes

import (
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestChangesOfNodes kills one node after another, stops the database, and cuts the connections,
// while clients change blobs at all nodes and followers follow the changes, four of them by
// webhooks: each has every change once, in order, and knows the listing at the end. Each
// acknowledged request has its changes, and there are no more.
// Invariants 224, 227, 233.
func TestChangesOfNodes(t *testing.T) {
	t.Parallel()
	changesOfNodes(t, 1500, 200, time.Now().Add(time.Hour))
}

func changesOfNodes(t *testing.T, requests, phase int64, end time.Time) {
	t.Helper()
	c := e2e.NewCluster(t, e2e.Options{Dirty: true, Flags: []string{"--s3-secret-key-file", e2e.SecretKeys(t)}})
	c.Start(3)
	l := e2e.NewFeedLoad(t, c.Nodes)
	killed := 0
	kill := func() {
		l.Kill(killed%len(c.Nodes), phase/4)
		killed++
	}
	l.Run(requests, phase, end, kill, l.Cut, kill, func() {
		testenv.OK(t, c.Database.Stop())
		testenv.OK(t, c.Database.Start())
	})
	for _, node := range c.Nodes {
		node.Stop()
	}
	e2e.CheckClean(t, c.Options.Wrapper, c.Places(c.Database)...)
}
