package faults

import (
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestMirrorOfKilledServers kills a source, a target and the mirror between them, while clients
// change the source: both sides are equal at the end.
// Invariant 231.
func TestMirrorOfKilledServers(t *testing.T) {
	t.Parallel()
	mirrorOfKilledServers(t, 1000, 80, time.Now().Add(time.Hour))
}

func mirrorOfKilledServers(t *testing.T, requests, phase int64, end time.Time) {
	t.Helper()
	start := func() *e2e.Server {
		return e2e.Start(t, e2e.Options{Addr: testenv.ReserveAddress(t), Dirty: true})
	}
	from, to := start(), start()
	l := e2e.NewMirrorLoad(t, []*e2e.Server{from}, to)
	l.Run(requests, phase, end, l.KillMirror, l.KillTarget, l.KillSource, func() { l.KillTarget(); l.KillMirror(); l.KillSource() })
	for _, s := range []*e2e.Server{from, to} {
		s.Stop()
		e2e.CheckClean(t, nil, "--data", s.Data)
	}
}
