package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestClockIsSet moves a single server's clock.
// Invariant 103.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ahead")
	set := func(ahead time.Duration) {
		t.Helper()
		next := file + ".next"
		testenv.OK(t, os.WriteFile(next, []byte(ahead.String()), 0o600))
		testenv.OK(t, os.Rename(next, file)) // the server reads a whole one
	}
	set(0)
	s := e2e.Start(t, e2e.Options{
		Dirty: true, Wrapper: []string{"env", "SLUICE_TEST_CLOCK=" + file},
		Flags: append([]string{"--garbage-grace", "24h"}, observed...), Tuning: purging,
	})
	survivesTheClock(t, []*e2e.Server{s}, set)
}

// TestClockOfTheDatabaseIsSet moves the clock of PostgreSQL below two nodes.
// Invariant 103.
func TestClockOfTheDatabaseIsSet(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t)
	dsn, set := testenv.MovedPostgres(t, 0)
	var nodes []*e2e.Server
	objects := testenv.S3(t, testenv.S3Options{})
	for range 2 {
		o := e2e.OnObjects(objects)
		o.Addr, o.Dirty, o.Tuning = testenv.ReserveAddress(t), true, purging
		o.Flags = append(append(o.Flags, "--meta", dsn), observed...)
		nodes = append(nodes, e2e.Start(t, o))
	}
	survivesTheClock(t, nodes, set)
}

// observed and purging are the flags and the tuning with which survivesTheClock sees what a node's
// tasks do.
var (
	observed = []string{"--admin-addr", "127.0.0.1:0"}
	purging  = e2e.Tuning{"PurgeEvery": time.Second}
)

// survivesTheClock kills all nodes, sets their clock 25 hours ahead, and starts them. While the
// time is in doubt, nothing must be deleted that was not due before, and a request that is repeated
// with its key must have no effect, in that state and whenever the clock is set later.
func survivesTheClock(t *testing.T, nodes []*e2e.Server, set func(ahead time.Duration)) {
	t.Helper()
	s := nodes[0]
	name := e2e.BlobTarget("0x1", "replaced")
	s.Must(204, "PUT", name, e2e.Content(1, 100_000))
	s.Must(204, "PUT", name, e2e.Content(2, 100_000)) // the first content is garbage
	upload, session := s.Begin("0x1", "uploaded", 1<<20), s.Session()
	use := func() {
		t.Helper()
		s.Must(200, "POST", "/v1/sessions/"+session+"/use", []byte("{}"), "Idempotency-Key", "once")
	}
	use()
	left := s.Left(session)
	unharmed := func(when string) {
		t.Helper()
		use()
		testenv.Equal(t, s.Left(session), left, "%s, after a repeated use: chunksets left", when)
		state := e2e.Text(t, s.Must(200, "GET", "/v1/multipart-uploads/"+upload, nil).Object(t), "state")
		testenv.Equal(t, state, "open", "%s: the upload", when)
		for _, node := range nodes {
			testenv.Equal(t, handled(node, "free_garbage")+handled(node, "purge"), 0, "%s: freed and purged rows", when)
		}
	}
	for _, node := range nodes {
		node.Kill()
	}
	set(25 * time.Hour)
	for _, node := range nodes {
		node.Restart()
		node.Logged("deletions pause")
	}
	due(t, nodes)
	unharmed("killed, and started with another time")
	set(0)
	for _, node := range nodes {
		node.Logged("deletions continue")
	}
	due(t, nodes)
	unharmed("with the right time again")
	set(25 * time.Hour)
	use()
	due(t, nodes)
	unharmed("with another time")
}

// due returns when the leader has had two opportunities to purge.
func due(t *testing.T, nodes []*e2e.Server) {
	t.Helper()
	ran := func() (runs int) {
		for _, node := range nodes {
			runs += node.Counter(`sluice_task_runs_total{task="restore_reserve"}`)
		}
		return runs
	}
	before := ran()
	e2e.Await(t, "no node leads", func() bool { return ran() >= before+2 })
}

// handled returns how much a node's task has handled.
func handled(node *e2e.Server, task string) int {
	return node.Counter(fmt.Sprintf(`sluice_task_handled_total{task=%q}`, task))
}
