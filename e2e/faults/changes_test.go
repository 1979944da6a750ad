package faults

import (
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestChangesOfAKilledServer kills a server, and cuts its connections, while clients change blobs
// and followers follow the changes, four of them by webhooks: each has every change once, in order,
// and knows the listing at the end. Each acknowledged request has its changes, and there are no
// more.
// Invariants 224, 227, 233.
func TestChangesOfAKilledServer(t *testing.T) {
	t.Parallel()
	changesOfAKilledServer(t, 1500, 200, time.Now().Add(time.Hour))
}

func changesOfAKilledServer(t *testing.T, requests, phase int64, end time.Time) {
	t.Helper()
	s := e2e.Start(t, e2e.Options{Addr: testenv.ReserveAddress(t), Dirty: true, Tuning: purging})
	l := e2e.NewFeedLoad(t, []*e2e.Server{s})
	l.Run(requests, phase, end, func() { l.Kill(0, 0) }, l.Cut)
	s.Stop()
	e2e.CheckClean(t, nil, "--data", s.Data)
}
