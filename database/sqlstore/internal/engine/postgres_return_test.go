package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/pgproxy"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// TestPostgresReturnsUnderLoad: a server with little processor time is stopped at once and started
// while three nodes have callers that never leave. Each node opens few connections until the server
// answers, and closes none of them because older ones failed, so that all nodes write again after
// as many connections as their pools have.
// Invariant 93.
func TestPostgresReturnsUnderLoad(t *testing.T) {
	t.Parallel()
	const nodes, callers, writes = 3, 8, 5
	p := pgproxy.New(t, testenv.Postgres(t), func() fault.Kind { return fault.None })
	ctx, leave := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer leave()
	var written [nodes]atomic.Int64
	var engines []*postgresEngine
	for n := range nodes {
		s, engine := openNode(t, p.DSN)
		engines = append(engines, engine)
		for caller := range callers {
			running.Go(func() {
				for ctx.Err() == nil {
					if s.setFact(ctx, fmt.Sprintf("%d %d", n, caller), "value") == nil {
						written[n].Add(1)
					}
				}
			})
		}
	}
	await := func(why string, done func(n int) bool) {
		t.Helper()
		for n := range nodes {
			for !done(n) {
				if opened := p.Connections.Load(); opened > 300 {
					t.Fatalf("%s: node %d does not, after %d connections", why, n, opened)
				}
				time.Sleep(time.Millisecond)
			}
		}
	}
	await("nodes write", func(n int) bool { return written[n].Load() >= writes })
	p.Processor.Connect.Store(int64(200 * time.Millisecond))
	p.Processor.Request.Store(int64(3 * time.Millisecond))
	p.Refuse.Store(true)
	p.CutAll()
	await("nodes notice that the server is away", func(n int) bool { return engines[n].err() != nil })
	p.Connections.Store(0)
	for n := range nodes {
		written[n].Store(0)
	}
	p.Refuse.Store(false)
	await("nodes write again", func(n int) bool { return written[n].Load() >= writes })
	if opened, most := p.Connections.Load(), int64(nodes*(postgresConns+2)); opened > most {
		t.Errorf("the nodes opened %d connections, want at most %d", opened, most)
	}
}

// TestPostgresSlowStart: a server completes no connection within the DSN's connect_timeout, as
// while many nodes start. The server has more time for an opening.
// Invariant 93.
func TestPostgresSlowStart(t *testing.T) {
	t.Parallel()
	p := pgproxy.New(t, testenv.Postgres(t), func() fault.Kind { return fault.None })
	p.Processor.Connect.Store(int64(1200 * time.Millisecond))
	s, _ := openNode(t, p.DSN+"&connect_timeout=1")
	testenv.OK(t, s.setFact(t.Context(), "name", "value"))
}

// TestPostgresLongOutage: in an outage that has lasted, calls fail at once and open no connections.
// The store looks alone whether the server is back.
// Invariant 93.
func TestPostgresLongOutage(t *testing.T) {
	t.Parallel()
	p := pgproxy.New(t, testenv.Postgres(t), func() fault.Kind { return fault.None })
	s, node := openNode(t, p.DSN)
	p.Refuse.Store(true)
	p.CutAll()
	testenv.Is(t, s.setFact(database.WithPatience(t.Context(), time.Millisecond), "name", "value"), database.ErrUnavailable, "a write without a server")
	down := *node.down.Load()
	down.since = down.since.Add(-refuseAfter)
	node.down.Store(&down)
	retries := node.lostRetries.Load()
	short := database.WithPatience(t.Context(), 5*time.Second) // ample for many attempts
	testenv.Is(t, s.setFact(short, "name", "value"), database.ErrUnavailable, "a write in a long outage")
	testenv.Is(t, testenv.Error(s.fact(short, "name")), database.ErrUnavailable, "a read in a long outage")
	testenv.Equal(t, node.lostRetries.Load(), retries, "attempts that calls repeat in a long outage")
	p.Refuse.Store(false)
	node.probe(t.Context())
	testenv.OK(t, s.setFact(t.Context(), "name", "value"))
}

// TestPostgresLossOfAnOldConnection: the loss of a connection discards the pool's other
// connections, but none that was begun after an earlier loss; a failed attempt to connect discards
// none.
// Invariant 93.
func TestPostgresLossOfAnOldConnection(t *testing.T) {
	t.Parallel()
	_, node := openNode(t, testenv.Postgres(t))
	take := func() *pooledConn {
		t.Helper()
		return testenv.Must(node.acquire(t.Context(), time.Now().Add(database.Patience)))(t)
	}
	pid := func() uint32 {
		t.Helper()
		c := take()
		defer c.release()
		return c.conn.PgConn().PID()
	}
	first, second := take(), take()
	defer first.release()
	defer second.release()
	idle := pid()
	node.observe(first, classLost, errSilent)
	young := pid()
	if young == idle {
		t.Error("a connection was kept after the loss of one that is as old")
	}
	node.observe(second, classLost, errSilent)
	node.observe(nil, classLost, errSilent)
	testenv.Equal(t, pid(), young, "the connection after the loss of older ones and a failed attempt")
}
