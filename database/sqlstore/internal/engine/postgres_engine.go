package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"sluice/database"
)

// postgresEngine is the engine for PostgreSQL: a pool of connections. Writers use at most half of
// them, because they wait for locks and standbys; reads do not.
type postgresEngine struct {
	versions
	pool         *pgxpool.Pool
	sessions     *sessions // of the pool
	hosts        *hosts
	opening      opening
	generation   atomic.Int64           // how often the pool was reset
	closeTimeout time.Duration          // how long close waits for running COMMITs
	writeSlots   chan struct{}          // holds a token for each write transaction until its COMMIT is acknowledged
	detached     atomic.Int64           // COMMITs for which no caller waits any more
	down         atomic.Pointer[outage] // nil: the server was reached the last time
	commits      context.Context        // of every COMMIT; it has no deadline, and only abandon cancels it
	abandon      context.CancelFunc
	guard        commitGuard
	acked        *acknowledged
	serverClock  *serverClock
	quit         chan struct{} // closed when the store is closed
	done         chan struct{} // closed when the background loop has ended
	closing      func() error

	commitCounts                 *commitCounts
	conflictRetries, lostRetries atomic.Int64
}

var _ Engine = (*postgresEngine)(nil)

func (p *postgresEngine) err() error {
	if p.isClosed() {
		return ErrClosed
	}
	if down := p.down.Load(); down != nil {
		return down.err
	}
	if p.detached.Load() >= int64(cap(p.writeSlots)) || p.sessions.waiting(slotStuck) >= cap(p.writeSlots) {
		return fmt.Errorf("%w: %w", database.ErrUnavailable, errSlotsHeld)
	}
	return nil
}

// slotStuck is the age from which a COMMIT without a response counts as one that holds its slot.
const slotStuck = 5 * time.Second

// errSlotsHeld is why nothing can be written while the server responds.
var errSlotsHeld = errors.New("the COMMITs on all connections for writes have no response yet, as while a synchronous standby is unreachable")

func (p *postgresEngine) isClosed() bool {
	select {
	case <-p.quit:
		return true
	default:
		return false
	}
}

func (p *postgresEngine) oneWriter() bool { return false }

// stopped returns nil: a connection that failed is replaced.
func (p *postgresEngine) stopped() <-chan struct{} { return nil }

func (p *postgresEngine) clock() engineClock { return p.serverClock }

// leaseTime reads the server's time, not the transaction's.
func (p *postgresEngine) leaseTime(t *Tx) (time.Time, error) { return postgresTime(t) }

func (p *postgresEngine) commitGuard() *commitGuard { return &p.guard }

func (p *postgresEngine) lostCommits() error { return p.acked.err() }

func (p *postgresEngine) forgetCommits() { p.acked.forget() }

// quickCheck does nothing: the server's pages are not ours.
func (p *postgresEngine) quickCheck(context.Context, func(time.Duration)) error { return nil }

func (p *postgresEngine) listsInside() bool { return true }

// maxLists returns a quarter of all connections.
func (p *postgresEngine) maxLists() int { return max(1, int(p.pool.Config().MaxConns)/4) }

func (p *postgresEngine) close() error { return p.closing() }

func (p *postgresEngine) closeAll() error {
	close(p.quit)
	<-p.done
	p.hosts.stop()
	timer := time.AfterFunc(p.closeTimeout, p.abandon)
	defer timer.Stop()
	p.pool.Close() // waits for running transactions
	p.abandon()
	return nil
}

// errUnfit is the error for a server that does not meet the requirements.
var errUnfit = errors.New("the PostgreSQL server cannot be used")

// pooledConn is a connection acquired from the pool for a limited time.
type pooledConn struct {
	postgresConn
	pooled     *pgxpool.Conn
	generation int64 // the pool's when the connection was begun
	cancel     context.CancelFunc
}

// release returns the connection to the pool, which closes it if it is still in a
// transaction, as after a panic.
func (c *pooledConn) release() {
	c.pooled.Release()
	c.cancel()
}

func (p *postgresEngine) acquire(ctx context.Context, until time.Time) (*pooledConn, error) {
	taking, stop := context.WithDeadline(ctx, until)
	defer stop()
	conn, err := p.pool.Acquire(taking)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	generation := sessionOf(conn.Conn().PgConn()).generation
	return &pooledConn{postgresConn{ctx: ctx, conn: conn.Conn()}, conn, generation, cancel}, nil
}

// acquireFailed classifies the error from an acquire that ended at the given time at the latest.
// Everything but an explicit refusal may be temporary. A server that has too many connections still
// serves those that it has accepted. They are kept, because a connection that is closed may not be
// accepted again.
func (p *postgresEngine) acquireFailed(ctx context.Context, until time.Time, err error) (errorClass, error) {
	var e *pgconn.PgError
	switch {
	case ctx.Err() != nil:
		return classOther, ctx.Err()
	case p.isClosed():
		return classOther, ErrClosed
	case errors.Is(err, errUnfit):
		return classOther, err
	case errors.As(err, &e) && e.Code == tooManyConnections && p.connections() > 0:
		return classBusy, err
	case errors.As(err, &e):
		return p.observe(nil, classifyPostgres(err), err), err
	case !time.Now().Before(until): // a timeout alone proves nothing about the server
		if p.down.Load() != nil {
			return classLost, err
		}
		return classBusy, err
	default:
		return p.observe(nil, classLost, err), err
	}
}

// connections returns the number of open connections.
func (p *postgresEngine) connections() int32 {
	s := p.pool.Stat()
	return s.AcquiredConns() + s.IdleConns()
}

// outage is a time in which the server is out of reach.
type outage struct {
	err   error // why the last attempt to reach it failed
	since time.Time
}

// refuseAfter is how long an outage must have lasted for calls to fail at once. The store then
// looks alone whether the server is back, so that it has few connections to accept.
const refuseAfter = database.Patience / 2

// refusal returns the error for calls in an outage that has lasted.
func (p *postgresEngine) refusal() error {
	if down := p.down.Load(); down != nil && time.Since(down.since) > refuseAfter {
		return fmt.Errorf("sqlstore: %w", down.err)
	}
	return nil
}

// observe records the server's state that a call has shown: on the connection c, or, if c is nil,
// by an attempt to connect. After the loss of a connection, those that were begun before it are
// likely to be lost as well. It shows nothing about younger ones, nor does a failed attempt. A
// connection that this process closed shows nothing.
func (p *postgresEngine) observe(c *pooledConn, f errorClass, err error) errorClass {
	switch {
	case errors.Is(err, net.ErrClosed):
	case f == classLost:
		now := &outage{fmt.Errorf("%w: %w", database.ErrUnavailable, err), time.Now()}
		if down := p.down.Load(); down != nil {
			now.since = down.since
		}
		p.down.Store(now)
		p.opening.Lost()
		if c != nil && p.generation.CompareAndSwap(c.generation, c.generation+1) {
			p.pool.Reset()
		}
	case p.down.Load() != nil:
		p.down.Store(nil)
	}
	return f
}
