package nodes

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/e2e"
	"sluice/test/testenv"
)

// replicas are a primary and two standbys on machines of their own. At least one standby has each
// commit that is acknowledged. A name of their own each makes pg_basebackup no such standby, and a
// standby that is late finds the log that it lacks.
type replicas struct {
	*testing.T
	servers  []*testenv.PostgresServer
	machines []*testenv.Machine
	failures []failure // that the primary has

	mu      sync.Mutex
	primary int // that was promoted last
}

func startReplicas(t *testing.T) *replicas {
	t.Helper()
	network := testenv.NewSwitch(t)
	r := &replicas{T: t, failures: failures}
	for i := range 3 {
		m := network.NewMachine()
		settings := []string{"synchronous_standby_names=ANY 1 (a, b, c)", "cluster_name=" + "abc"[i:i+1], "wal_keep_size=1GB"}
		var s *testenv.PostgresServer
		if i == 0 {
			s = testenv.StartPostgresOn(t, m, settings...)
		} else {
			s = testenv.StartStandbyOn(t, m, r.servers[0], settings...)
		}
		r.servers, r.machines = append(r.servers, s), append(r.machines, m)
	}
	return r
}

// promote makes the standby that has received most the other's primary.
func (r *replicas) promote() {
	r.Helper()
	var most int64
	next, other := -1, -1
	for i, s := range r.servers {
		if i == r.primary {
			continue
		}
		received := testenv.Must(s.Received())(r)
		if next < 0 || received > most {
			next, other, most = i, next, received
		} else {
			other = i
		}
	}
	testenv.OK(r, errors.Join(r.servers[next].Promote(), r.servers[other].Follow(r.servers[next])))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.primary = next
}

// failure is a primary's failure, and its end, after which the primary is as before.
type failure struct {
	name            string
	happens, passes func(*testenv.PostgresServer, *testenv.Machine) error
}

var failures = []failure{
	{"its machine is killed",
		func(s *testenv.PostgresServer, _ *testenv.Machine) error { return s.Stop() },
		func(s *testenv.PostgresServer, _ *testenv.Machine) error { return s.Start() }},
	{"it hangs",
		func(s *testenv.PostgresServer, _ *testenv.Machine) error { return s.Freeze() },
		func(s *testenv.PostgresServer, _ *testenv.Machine) error { return s.Thaw() }},
	{"its cable is pulled",
		func(_ *testenv.PostgresServer, m *testenv.Machine) error { return m.Unplug() },
		func(_ *testenv.PostgresServer, m *testenv.Machine) error { return m.Plug() }},
	{"all that it sends is lost",
		func(_ *testenv.PostgresServer, m *testenv.Machine) error { return m.Mute() },
		func(_ *testenv.PostgresServer, m *testenv.Machine) error { return m.Unmute() }},
}

// fail has the primary fail in each way, one after the other: a standby is promoted, the failed
// primary comes back as it was, as a second primary, and is then made a standby.
func (r *replicas) fail(further func()) {
	for _, failure := range r.failures {
		old := r.primary
		testenv.OK(r, failure.happens(r.servers[old], r.machines[old]))
		r.promote()
		promoted := time.Now()
		further()
		r.Logf("%s: requests were served %v after the promotion", failure.name, time.Since(promoted))
		testenv.OK(r, failure.passes(r.servers[old], r.machines[old]))
		further()
		testenv.OK(r, errors.Join(r.servers[old].Rejoin(r.servers[r.primary]), r.servers[r.primary].AwaitStandbys(2)))
	}
}

// leads reports whether a server is the primary that was promoted last.
func (r *replicas) leads(server int) bool {
	r.mu.Lock()
	primary := r.primary
	r.mu.Unlock()
	conn, err := pgx.Connect(r.Context(), r.servers[server].DSN())
	if err != nil {
		return false
	}
	var standby bool
	err = conn.QueryRow(r.Context(), "SELECT pg_is_in_recovery()").Scan(&standby)
	return errors.Join(err, conn.Close(r.Context())) == nil && !standby && server == primary
}

// behindHAProxy runs HAProxy with the documented configuration before the servers, and returns the
// DSN that leads through it. In place of Patroni, this process decides which server leads.
func (r *replicas) behindHAProxy() (dsn string) {
	r.Helper()
	program := testenv.Must(testenv.HAProxyPath())(r)
	listener := e2e.ListenHere(r)
	replaced := [][2]string{{"bind 127.0.0.1:5432", "bind fd@3"}}
	for i, m := range r.machines {
		at := e2e.ListenHere(r)
		patroni := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if !r.leads(i) {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})}
		go func() { _ = patroni.Serve(at) }() // until Close
		r.Cleanup(func() { testenv.OK(r, patroni.Close()) })
		_, port, err := net.SplitHostPort(at.Addr().String())
		testenv.OK(r, err)
		replaced = append(replaced, [2]string{fmt.Sprintf("10.0.0.%d:5432", 11+i), fmt.Sprintf("%s:5432 addr 127.0.0.1 port %s", m.Address, port)})
	}
	config := filepath.Join(r.TempDir(), "haproxy.cfg")
	testenv.OK(r, os.WriteFile(config, []byte(e2e.Deployed(r, "haproxy-postgres.cfg", replaced)), 0o600))
	host, port, err := net.SplitHostPort(listener.Addr().String())
	testenv.OK(r, err)
	e2e.StartProxy(r, exec.Command(program, "-db", "-f", config), listener)
	dsn = strings.Replace(testenv.HostsDSN(), "host=", "host="+host+"&port="+port, 1)
	// At first it uses all servers, in turn.
	e2e.Await(r, "HAProxy uses a server that does not lead", func() bool {
		for range 2 * len(r.servers) {
			conn, err := pgx.Connect(r.Context(), dsn)
			if err != nil {
				return false
			}
			testenv.OK(r, conn.Close(r.Context()))
		}
		return true
	})
	return dsn
}

// TestFailover has the primary of three servers fail in each way while clients use three nodes. A
// single server that never failed could have given the same responses, nodes are not restarted, and
// a primary that comes back is not used.
// Invariant 93.
func TestFailover(t *testing.T) {
	t.Parallel()
	const phase = 120
	for name, balanced := range map[string]bool{"hosts in the DSN": false, "HAProxy and nginx": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.Require(t, testenv.HAProxy, testenv.Nginx, testenv.NetworkNamespaces)
			r := startReplicas(t)
			dsn := testenv.HostsDSN(r.servers...)
			if balanced {
				dsn = r.behindHAProxy()
				r.failures = failures[:2] // for HAProxy a network that is cut is a server that hangs
			}
			c := e2e.ClusterOn(t, r.servers[0], dsn, e2e.Options{Dirty: true, Flags: append([]string{"--base-path", e2e.HostedBase}, linearFlags...)})
			c.Start(3)
			views := c.Views(t)
			if balanced {
				views = []*e2e.Server{c.Balanced(t)}
			}
			checkHistories(t, views, int64(1+2*len(r.failures))*phase, phase, math.MaxInt, r.fail)
			for _, node := range c.Nodes {
				if log := node.Log.String(); strings.Contains(log, "everything but reads is refused") {
					t.Errorf("a promotion of a standby that has everything is taken for a setback:\n%s", e2e.Tail(log))
				}
			}
		})
	}
}
