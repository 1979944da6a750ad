package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/database"
	"sluice/database/sqlstore/internal/pgproxy"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// replicated is a primary that acknowledges only commits that its standby has.
type replicated struct {
	*testing.T
	primary, standby *testenv.PostgresServer
}

func newReplicated(t *testing.T) replicated {
	t.Helper()
	r := replicated{T: t, primary: testenv.StartPostgres(t)}
	r.do(r.primary.StopFast(), r.primary.Start("synchronous_standby_names=*"))
	r.standby = testenv.StartStandby(t, r.primary)
	return r
}

// eitherHost returns a DSN for whichever of both servers is the primary.
func (r replicated) eitherHost() string {
	return fmt.Sprintf("host=%s,%s user=sluice dbname=postgres sslmode=disable",
		filepath.Dir(r.primary.Socket()), filepath.Dir(r.standby.Socket()))
}

func (r replicated) do(errs ...error) {
	r.Helper()
	testenv.OK(r, errors.Join(errs...))
}

// counterSize is a counter's value in the beginning.
const counterSize = 10

// counters creates n counters.
func (r replicated) counters(s testDB, kind string, n int) []string {
	r.Helper()
	var ids []string
	for i := range n {
		id := fmt.Sprint(kind, i)
		r.do(s.setFact(r.Context(), id, strconv.Itoa(counterSize)))
		ids = append(ids, id)
	}
	return ids
}

// use uses a counter in another goroutine.
func (r replicated) use(s testDB, id string) <-chan error {
	used := make(chan error, 1)
	go func() {
		_, err := s.use(database.WithPatience(context.Background(), time.Hour), id)
		used <- err
	}()
	return used
}

// used returns how often a counter was used.
func (r replicated) used(s testDB, id string) int64 {
	r.Helper()
	left, err := s.left(r.Context(), id)
	r.do(err)
	return counterSize - left
}

// awaitCommits waits until this many COMMITs wait for the standby, and checks that no running
// call returns before.
func (r replicated) awaitCommits(want int, calls ...<-chan error) {
	r.Helper()
	r.awaitEvents("SyncRep", want, func() {
		for _, call := range calls {
			select {
			case err := <-call:
				r.Fatalf("a call returned %v while no standby has its commit", err)
			default:
			}
		}
	})
}

// awaitEvents waits until this many sessions wait for a kind of event, and runs a check while it
// waits.
func (r replicated) awaitEvents(event string, want int, check func()) {
	r.Helper()
	conn, err := pgx.Connect(r.Context(), r.primary.DSN())
	r.do(err)
	eventually(r.T, fmt.Sprintf("%d sessions wait for %s", want, event), func() bool {
		check()
		var n int
		r.do(conn.QueryRow(r.Context(), `SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event = $1`, event).Scan(&n))
		return n == want
	})
	r.do(conn.Close(r.Context()))
}

// leave uses counters, each by a caller that leaves while the COMMIT waits for the standby.
func (r replicated) leave(s testDB, ids ...string) {
	r.Helper()
	for _, id := range ids {
		// A call that has not got as far in its time has no effect.
		eventually(r.T, "a use waits in its COMMIT", func() bool {
			_, err := s.use(database.WithPatience(r.Context(), 200*time.Millisecond), id)
			return errors.Is(err, database.ErrUnknownOutcome)
		})
	}
	r.awaitCommits(len(ids))
}

// settled waits until a node has no detached COMMIT.
func (r replicated) settled(node *postgresEngine) {
	r.awaitCommits(0)
	for range cap(node.writeSlots) {
		node.writeSlots <- struct{}{}
	}
	for range cap(node.writeSlots) {
		<-node.writeSlots
	}
}

// TestPostgresStandbyAway: while the standby is unreachable nothing is acknowledged, reads succeed,
// and at most half of all connections wait for it. When it is back, every call has taken effect
// once.
// Invariant 82.
func TestPostgresStandbyAway(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	s, node := openNode(t, r.primary.DSN()+"&pool_max_conns=8")
	other, _ := openNode(t, r.primary.DSN()+"&pool_max_conns=2")
	ids := r.counters(s, "counter", cap(node.writeSlots))
	short := func() context.Context { return database.WithPatience(t.Context(), time.Second) }
	r.do(r.standby.Stop())
	r.leave(s, ids...)
	long := database.WithPatience(t.Context(), time.Hour) // refused without waiting
	testenv.Is(t, s.setFact(long, "name", "value"), database.ErrBusy, "a write beyond half of the connections")
	testenv.Is(t, testenv.Error(other.use(short(), ids[0])), database.ErrBusy, "a use that waits for the lock of an unacknowledged one")
	for _, id := range ids {
		testenv.Equal(t, r.used(s, id), 0, "uses that are visible while the standby does not have them")
	}
	r.awaitCommits(len(ids))
	r.do(r.standby.Start())
	r.settled(node)
	for _, id := range ids {
		testenv.Equal(t, r.used(s, id), 1, "uses that were counted")
	}
	r.do(s.setFact(t.Context(), "name", "value"))
}

// TestPostgresCommitIsNotCancelled: a COMMIT is acknowledged only when the standby has it, whatever
// interrupts the wait.
// Invariant 82.
func TestPostgresCommitIsNotCancelled(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	proxied := pgproxy.New(t, r.primary.DSN()+"&search_path=public", func() fault.Kind { return fault.None })
	s, node := openNode(t, proxied.DSN)
	ids := r.counters(s, "counter", 3)

	r.do(r.standby.Stop())
	used := r.use(s, ids[0])
	r.awaitCommits(1)
	proxied.CutAll()
	unseen := func() {
		testenv.Equal(t, r.used(s, ids[0]), 0, "connection lost: uses that are visible while the standby does not have them")
	}
	r.awaitEvents("transactionid", 1, unseen) // the same transaction begins again, and waits for the first one to end
	r.awaitCommits(1, used)
	unseen()
	r.do(r.standby.Start(), <-used)
	testenv.Equal(t, r.used(s, ids[0]), 1, "connection lost: uses")

	r.do(r.standby.Stop())
	used = r.use(s, ids[1])
	r.awaitCommits(1)
	r.do(r.primary.Exec(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`))
	for n := int64(0); n == 0; { // until PostgreSQL has committed it on this server only
		n = r.used(s, ids[1])
	}
	r.awaitCommits(1, used)
	r.do(r.standby.Start(), <-used)
	testenv.Equal(t, r.used(s, ids[1]), 1, "cancelled by an operator: uses")

	r.do(r.standby.Stop())
	used = r.use(s, ids[2])
	r.awaitCommits(1)
	node.closeTimeout = 0
	r.do(s.Close())
	testenv.Is(t, <-used, database.ErrUnknownOutcome, "store closed")
	r.awaitCommits(1)
	r.do(r.standby.Start())
}

// TestPostgresFastShutdown: the primary's shutdown ends the wait for the standby. The calls that it
// interrupted are repeated on the standby that replaces it.
// Invariant 82.
func TestPostgresFastShutdown(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	s, _ := openNode(t, r.eitherHost())
	ids := r.counters(s, "counter", 3)
	r.do(r.standby.Stop())
	var all []<-chan error
	for _, id := range ids {
		all = append(all, r.use(s, id))
	}
	r.awaitCommits(len(ids))
	r.do(r.primary.StopFast(), r.standby.Start(), r.standby.Promote())
	for _, used := range all {
		r.do(<-used)
	}
	for _, id := range ids {
		testenv.Equal(t, r.used(s, id), 1, "uses that are counted on the new primary")
	}
}
