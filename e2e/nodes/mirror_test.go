package nodes

import (
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestMirrorOfNodes kills nodes over PostgreSQL, a server to which their blobs are mirrored, and a
// mirror, and stops the database, while clients change blobs at all nodes: both sides end equal.
// Invariant 231.
func TestMirrorOfNodes(t *testing.T) {
	t.Parallel()
	mirrorOfNodes(t, 800, 80, time.Now().Add(time.Hour))
}

func mirrorOfNodes(t *testing.T, requests, phase int64, end time.Time) {
	t.Helper()
	c := e2e.NewCluster(t, e2e.Options{Dirty: true})
	c.Start(2)
	to := e2e.Start(t, e2e.Options{Addr: testenv.ReserveAddress(t), Dirty: true})
	l := e2e.NewMirrorLoad(t, c.Nodes, to)
	l.Run(requests, phase, end, l.KillSource, l.KillMirror, l.KillSource, l.KillMirror, l.KillTarget, func() {
		testenv.OK(t, c.Database.Stop())
		testenv.OK(t, c.Database.Start())
	})
}
