//go:build unix

package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/database"
	"sluice/test/testenv"
)

// hostsDSN returns a DSN with several hosts.
func hostsDSN(servers ...*testenv.PostgresServer) string {
	var hosts []string
	for _, s := range servers {
		hosts = append(hosts, filepath.Dir(s.Socket()))
	}
	return fmt.Sprintf("host=%s user=sluice dbname=postgres sslmode=disable target_session_attrs=read-write", strings.Join(hosts, ","))
}

// factsOn returns how many facts with this value a server has.
func factsOn(t *testing.T, s *testenv.PostgresServer, value string) (n int) {
	t.Helper()
	conn := connectTo(t, s.DSN())
	testenv.OK(t, conn.QueryRow(t.Context(), `SELECT COUNT(*) FROM facts WHERE value = $1`, []byte(value)).Scan(&n))
	return n
}

// TestPostgresTwoPrimaries: a standby is promoted while the primary runs. Nodes that are connected
// to the old primary only leave it, wherever it is in their DSN, and do not go back: not when it
// returns, not when they are started again, and not when it is the only one.
// Invariant 93.
func TestPostgresTwoPrimaries(t *testing.T) {
	t.Parallel()
	old := testenv.StartPostgres(t)
	next := testenv.StartStandby(t, old)
	type node struct {
		testDB
		*postgresEngine
	}
	var nodes []node
	for _, dsn := range []string{hostsDSN(old, next), hostsDSN(next, old)} {
		s, p := openNode(t, dsn+" application_name=pooled")
		nodes = append(nodes, node{s, p})
		testenv.OK(t, s.setFact(t.Context(), "before", "before"))
		testenv.Equal(t, p.sessions.timeline(), 1, "the first primary's timeline")
	}
	eventually(t, "the standby has the primary's table", func() bool { return factsTable(t, next) && factsOn(t, next, "before") == 1 })
	testenv.OK(t, next.Promote())

	var stop atomic.Bool
	var load sync.WaitGroup
	for i, n := range nodes {
		load.Go(func() { // acknowledged by the old primary until the new one is seen, and then by that only
			for k := 0; !stop.Load(); k++ {
				value := "early"
				if n.sessions.timeline() == 2 {
					value = "late"
				}
				testenv.Check(t, n.setFact(context.Background(), fmt.Sprint("fact", i, ".", k), value))
			}
		})
	}
	for _, n := range nodes {
		eventually(t, "the new primary is used", func() bool { return n.sessions.timeline() == 2 })
	}
	watch := connectTo(t, old.DSN())
	eventually(t, "no node is connected to the old primary", func() bool { return sessionsOf(t, watch, "pooled", "true") == 0 })
	stop.Store(true)
	load.Wait()
	testenv.Equal(t, factsOn(t, old, "late"), 0, "facts that the old primary has, and were written after the new one was known")
	for _, n := range nodes {
		testenv.OK(t, n.setFact(t.Context(), "name", "after"))
		if stats := n.Stats().Postgres; stats.EndedOlder == 0 || stats.Timeline != 2 {
			t.Errorf("the figures are %+v, want connections that were ended", stats)
		}
	}

	testenv.OK(t, errors.Join(old.StopFast(), old.Start()))
	for _, n := range nodes {
		n.pool.Reset()
		testenv.OK(t, n.setFact(t.Context(), "name", "returned"))
	}
	s, _ := openNode(t, hostsDSN(old, next))
	testenv.OK(t, s.setFact(t.Context(), "name", "opened"))
	testenv.Equal(t, factsOn(t, old, "returned")+factsOn(t, old, "opened"), 0, "facts that the old primary has since it returned")

	testenv.OK(t, next.StopFast())
	short := database.WithPatience(t.Context(), time.Second)
	testenv.Is(t, s.setFact(short, "name", "alone"), database.ErrUnavailable, "a write while only the old primary runs")
	testenv.Is(t, testenv.Error(s.fact(short, "name")), database.ErrUnavailable, "a read while only the old primary runs")
	if err := s.Err(); !errors.Is(err, database.ErrUnavailable) || !strings.Contains(err.Error(), "timeline is 1, and another server's is 2") {
		t.Errorf("a node without the new primary: %v", err)
	}
	testenv.OK(t, next.Start())
	testenv.Check(t, s.setFact(t.Context(), "name", "again"))
}

// TestPostgresOtherCluster: a DSN that names servers of two clusters does not mix them.
// Invariant 93.
func TestPostgresOtherCluster(t *testing.T) {
	t.Parallel()
	one, other := testenv.StartPostgres(t), testenv.StartOtherCluster(t)
	s, node := openNode(t, hostsDSN(one, other))
	testenv.OK(t, s.setFact(t.Context(), "name", "one"))
	used := one
	if factsTable(t, other) {
		used = other
	}
	testenv.OK(t, used.StopFast())
	testenv.Is(t, s.setFact(database.WithPatience(t.Context(), time.Second), "name", "two"), database.ErrUnavailable, "a write to another cluster")
	testenv.OK(t, used.Start())
	testenv.OK(t, s.setFact(t.Context(), "name", "one"))
	node.sessions.mu.Lock()
	node.sessions.shown = time.Now().Add(-time.Hour)
	testenv.Check(t, node.sessions.see(server{started: 1, cluster: "another", timeline: 1}))
	node.sessions.mu.Unlock()
}

func factsTable(t *testing.T, s *testenv.PostgresServer) (is bool) {
	t.Helper()
	testenv.OK(t, connectTo(t, s.DSN()).QueryRow(t.Context(), `SELECT to_regclass('facts') IS NOT NULL`).Scan(&is))
	return is
}

// TestPostgresHungPrimary: the primary freezes while COMMITs wait for a standby that lacks them.
// Their slots are free once that standby is the primary. A use takes effect there if its caller
// still waits, and otherwise not. The old primary changes nothing when it goes on.
// Invariant 93.
func TestPostgresHungPrimary(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	s, node := openNode(t, hostsDSN(r.primary, r.standby)+" pool_max_conns=8")
	left, waiting := r.counters(s, "left", 2), r.counters(s, "waiting", 2)
	r.do(r.standby.Stop())
	r.leave(s, left...)
	var all []<-chan error
	for _, id := range waiting {
		all = append(all, r.use(s, id))
	}
	r.awaitCommits(cap(node.writeSlots), all...)
	eventually(t, "the node is not ready", func() bool { return errors.Is(s.Err(), errSlotsHeld) })
	r.do(r.primary.Freeze(), r.standby.Start(), r.standby.Promote())
	for _, used := range all {
		r.do(<-used)
	}
	eventually(t, "the slots are free and the node is ready", func() bool { return len(node.writeSlots) == 0 && s.Err() == nil })
	testenv.Equal(t, node.detached.Load(), 0, "COMMITs without a caller")
	check := func(when string) {
		t.Helper()
		for i := range left {
			testenv.Equal(t, r.used(s, left[i]), 0, "%s: uses that their callers left", when)
			testenv.Equal(t, r.used(s, waiting[i]), 1, "%s: uses", when)
		}
	}
	check("promoted")
	r.do(r.primary.Thaw())
	watch := connectTo(t, r.primary.DSN())
	// It does not notice that a connection was closed while a COMMIT on it waits for a standby.
	eventually(t, "the old primary has no session with the node", func() bool {
		return sessionsOf(t, watch, "sluice", "wait_event IS DISTINCT FROM 'SyncRep'") == 0
	})
	node.pool.Reset()
	check("the old primary is back")
}

// TestPostgresHungServer: the only server freezes while COMMITs wait for it. Their slots are free
// when it has not responded for five seconds, and no COMMIT is repeated that its caller left.
// Invariant 93.
func TestPostgresHungServer(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	s, node := openNode(t, r.primary.DSN()+"&pool_max_conns=4")
	ids := r.counters(s, "counter", cap(node.writeSlots))
	r.do(r.standby.Stop())
	r.leave(s, ids...)
	testenv.Is(t, s.Err(), errSlotsHeld, "Err while all slots are held")
	r.do(r.primary.Freeze())
	eventually(t, "the slots are free", func() bool { return len(node.writeSlots) == 0 })
	testenv.Is(t, s.Err(), errSilent, "Err while the server hangs")
	testenv.Equal(t, s.Stats().Postgres.EndedSilent > 0, true, "connections are counted that were closed")
	r.do(r.primary.Thaw(), r.standby.Start())
	r.settled(node)
	for _, id := range ids {
		testenv.Equal(t, r.used(s, id), 1, "uses")
	}
	r.do(s.setFact(t.Context(), "name", "value"))
	testenv.Is(t, s.Err(), nil, "Err when the server is back")
}

// TestPostgresStandbyAwayClosesNothing: while a synchronous standby is away, the primary responds,
// and its COMMITs go on waiting, whether the DSN names the standby or not.
// Invariant 93.
func TestPostgresStandbyAwayClosesNothing(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	one, direct := openNode(t, r.primary.DSN()+"&pool_max_conns=4")
	both, several := openNode(t, hostsDSN(r.standby, r.primary)+" pool_max_conns=4")
	ids := r.counters(one, "counter", 4)
	r.do(r.standby.Stop())
	calls := []<-chan error{r.use(one, ids[0]), r.use(one, ids[1]), r.use(both, ids[2]), r.use(both, ids[3])}
	r.awaitCommits(len(ids), calls...)
	for _, node := range []*postgresEngine{direct, several} {
		eventually(t, "the node is not ready", func() bool { return errors.Is(node.err(), errSlotsHeld) })
	}
	locked := func(node *postgresEngine, fn func() bool) bool {
		node.sessions.mu.Lock()
		defer node.sessions.mu.Unlock()
		return fn()
	}
	eventually(t, "the primary has responded", func() bool {
		return locked(direct, func() bool { return direct.hosts.list[0].started != 0 })
	})
	away := several.hosts.list[0]
	locked(several, func() bool { away.failed = false; return true })
	eventually(t, "the standby has not responded", func() bool { return locked(several, func() bool { return away.failed }) })
	r.awaitCommits(len(ids), calls...)
	for _, node := range []*postgresEngine{direct, several} {
		if stats := node.stats().Postgres; stats.EndedSilent+stats.EndedOlder != 0 {
			t.Errorf("connections were closed: %+v", stats)
		}
	}
	r.do(r.standby.Start())
	for _, call := range calls {
		r.do(<-call)
	}
	for i, id := range ids {
		testenv.Equal(t, r.used(one, id), 1, "uses %d", i)
	}
	for _, node := range []*postgresEngine{direct, several} {
		r.settled(node)
		testenv.Is(t, node.err(), nil, "Err when the standby is back")
	}
}

// TestPostgresFailoverUnderLoad: one of two synchronous standbys is promoted while the primary is
// frozen and three nodes, with the hosts in different orders, count uses. Each acknowledged use is
// counted, none is counted twice, and it goes on when the old primary is back.
// Invariant 93.
func TestPostgresFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	old := testenv.StartPostgres(t)
	testenv.OK(t, errors.Join(old.StopFast(), old.Start("synchronous_standby_names=ANY 1 (*)")))
	a, b := testenv.StartStandby(t, old), testenv.StartStandby(t, old)
	const size = 1_000_000
	var uses [3][2]atomic.Int64 // acknowledged
	var nodes []testDB
	for i, dsn := range []string{hostsDSN(old, a, b), hostsDSN(a, b, old), hostsDSN(b, old, a)} {
		s, _ := openNode(t, dsn+" pool_max_conns=8")
		nodes = append(nodes, s)
		for k := range uses[i] {
			testenv.OK(t, s.setFact(t.Context(), fmt.Sprint(i, ".", k), strconv.Itoa(size)))
		}
	}
	var stop atomic.Bool
	var load sync.WaitGroup
	for i, s := range nodes {
		for k := range uses[i] {
			for range 4 {
				load.Go(func() {
					for !stop.Load() {
						if _, err := s.use(database.WithPatience(context.Background(), time.Hour), fmt.Sprint(i, ".", k)); err != nil {
							t.Error(err)
							return
						}
						uses[i][k].Add(1)
					}
				})
			}
		}
	}
	more := func(when string) {
		t.Helper()
		for i := range uses {
			for k := range uses[i] {
				before := uses[i][k].Load()
				eventually(t, when, func() bool { return uses[i][k].Load() > before+20 })
			}
		}
	}
	more("uses succeed")
	testenv.OK(t, old.Freeze())
	next := a
	if testenv.Must(b.Received())(t) > testenv.Must(a.Received())(t) { // only the one that is ahead has everything
		next = b
	}
	testenv.OK(t, next.Promote())
	more("uses succeed after the promotion")
	testenv.OK(t, old.Thaw())
	more("uses succeed when the old primary is back")
	stop.Store(true)
	load.Wait()
	for i, s := range nodes {
		testenv.Equal(t, s.Stats().Postgres.Timeline, 2, "the timeline")
		for k := range uses[i] {
			left, err := s.left(t.Context(), fmt.Sprint(i, ".", k))
			if want := size - uses[i][k].Load(); err != nil || left != want {
				t.Errorf("counter %d.%d: %d are left (%v), want %d", i, k, left, err, want)
			}
		}
	}
}
