package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A promotion begins a new timeline, so the primary with the greatest timeline is the right one
// (https://www.postgresql.org/docs/current/continuous-archiving.html, section 26.3.6). The pool has
// sessions with that one only.

// server is a server's state, as it shows it.
type server struct {
	started  int64  // when it was started, in microseconds by its clock: distinguishes servers
	cluster  string // the system identifier; "": this role may not read it
	timeline uint32 // 0: it is a standby
	readOnly bool
	address  string // at which it was seen
}

const showServer = `SELECT current_setting('transaction_read_only'),
	CAST(EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000000 AS BIGINT),
	CASE WHEN pg_is_in_recovery() THEN '0' ELSE substring(pg_walfile_name(pg_current_wal_lsn()) FOR 8) END;
	SELECT system_identifier FROM pg_control_system()`

// insufficientPrivilege is the error code for a function that a role must not call.
const insufficientPrivilege = "42501"

// askServer asks a connection's server for its state.
func askServer(ctx context.Context, c *pgconn.PgConn) (server, error) {
	results, err := c.Exec(ctx, showServer).ReadAll()
	var refusal *pgconn.PgError
	if mayNot := errors.As(err, &refusal) && refusal.Code == insufficientPrivilege; err != nil && !mayNot {
		return server{}, err
	}
	row := results[0].Rows[0]
	started, err := strconv.ParseInt(string(row[1]), 10, 64)
	if err != nil {
		return server{}, err
	}
	timeline, err := strconv.ParseUint(string(row[2]), 16, 32)
	if err != nil {
		return server{}, err
	}
	one := server{started: started, timeline: uint32(timeline), readOnly: string(row[0]) == "on", address: c.Conn().RemoteAddr().String()}
	if rows := results[1].Rows; len(rows) > 0 {
		one.cluster = string(rows[0][0])
	}
	return one, nil
}

// errOlderPrimary is why an older primary's sessions end.
var errOlderPrimary = errors.New("sqlstore: another server has become the primary")

// errNoCancel is why a connection sends no request to cancel.
var errNoCancel = errors.New("sqlstore: nothing must be cancelled on this connection")

// session is the engine's record of a connection in the pool.
type session struct {
	all        *sessions
	generation int64        // the pool's when the session was begun
	committing atomic.Int64 // when a COMMIT was sent that has no response yet, as a sessions.time; 0: none was
	warning    atomic.Pointer[pgconn.Notice]
	ended      atomic.Pointer[error] // why the engine ended it; nil: it did not

	// The lock of sessions protects these.
	term    int64 // the sessions' when the server was accepted; 0: it was not yet
	started int64 // the server's
}

const sessionKey = "sluice session"

// sessionOf returns the session on a connection in the pool.
func sessionOf(c *pgconn.PgConn) *session { return c.CustomData()[sessionKey].(*session) }

// sessions are the sessions of an engine's pool. They are ended by closing their sockets, whatever
// pgx does with them at that time. Its methods may be called concurrently.
type sessions struct {
	epoch time.Time

	older, silent, late atomic.Int64 // sessions ended for these reasons, and successful COMMITs of older primaries

	mu      sync.Mutex
	reset   func()
	sockets map[*socket]struct{}
	term    int64 // counts the primaries that were the newest, from 1
	newest  server
	shown   time.Time // when the newest one was last seen
}

func newSessions() *sessions {
	return &sessions{epoch: time.Now(), reset: func() {}, sockets: map[*socket]struct{}{}}
}

// time returns the time since the epoch, which is never 0.
func (all *sessions) time() time.Duration { return time.Since(all.epoch) + 1 }

// attach attaches a session to the connection that config is for.
func (all *sessions) attach(config *pgx.ConnConfig, generation int64) {
	s := &session{all: all, generation: generation}
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if s.committing.Load() != 0 || s.ended.Load() != nil {
			return nil, errNoCancel
		}
		return all.dial(ctx, s, addr, func(ctx context.Context) (net.Conn, error) { return dial(ctx, network, addr) })
	}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			s.warning.Store(n)
		}
	}
	config.ValidateConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		one, err := askServer(ctx, c)
		if err != nil {
			return err
		}
		return all.accept(s, one)
	}
	config.AfterConnect = func(_ context.Context, c *pgconn.PgConn) error {
		c.CustomData()[sessionKey] = s
		return nil
	}
}

// accept returns an error for a server that accepts no writes or is an older primary, so that the
// pool tries the DSN's next host. Its data may be stale, so it is not used for reads either.
func (all *sessions) accept(s *session, one server) error {
	switch {
	case one.timeline == 0:
		return errors.New("the PostgreSQL server is a standby: name the primary, or all servers, in the DSN")
	case one.readOnly:
		return errors.New("the PostgreSQL server is read-only for this user: set default_transaction_read_only to off")
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	s.term = all.term + 1 // however long it took to open, it is not stuck
	if err := all.see(one); err != nil {
		s.term = 0
		return err
	}
	s.term, s.started = all.term, one.started
	return nil
}

// otherClusterAfter is how long a cluster must have had no primary before another cluster's is
// used, such as one that pg_upgrade made. Timelines in two clusters cannot be compared.
const otherClusterAfter = 15 * time.Second

// see compares a primary with the newest one. If it is newer, all other servers' sessions end. If
// it is older, see returns an error. The caller holds the lock.
func (all *sessions) see(one server) error {
	newest := all.newest
	other := one.cluster != newest.cluster && one.cluster != "" && newest.cluster != ""
	switch {
	case all.term == 0:
	case other && time.Since(all.shown) < otherClusterAfter:
		return fmt.Errorf("the PostgreSQL server belongs to another cluster (system identifier %s) than the one in use (%s): name the servers of one cluster in the DSN",
			one.cluster, newest.cluster)
	case !other && one.timeline < newest.timeline:
		return fmt.Errorf("the PostgreSQL server was replaced as primary: its timeline is %d, and another server's is %d: "+
			"make it a standby of that one; if it is the right one nevertheless, stop the other and restart this node", one.timeline, newest.timeline)
	case !other && one.timeline == newest.timeline:
		all.shown = time.Now()
		return nil
	}
	all.term++
	all.newest, all.shown = one, time.Now()
	if all.term > 1 { // the first primary's connections replace none
		all.reset()
	}
	all.older.Add(all.end(errOlderPrimary, one.address, func(s *session) bool { return s.term < all.term }))
	return nil
}

// stuckConnect is the age from which a connection that is being opened is given up when a server
// was found to be the wrong one, or to hang. It may be waiting for that server, and the pool then
// tries the next host.
const stuckConnect = time.Second

// end closes the sockets of all accepted sessions that meet the condition, and returns how many
// there were. Connections that are being opened to another address than the right one, which may be
// "", are given up at once: they would make those to the right one wait. No request to cancel is
// sent. The caller holds the lock.
func (all *sessions) end(why error, right string, which func(*session) bool) (ended int64) {
	for k := range all.sockets {
		switch s := k.session; {
		case s.term == 0:
			if time.Since(k.began) > stuckConnect || right != "" && k.address != right {
				k.abandon()
			}
		case which(s):
			if s.ended.CompareAndSwap(nil, &why) {
				ended++
			}
			k.abandon()
		}
	}
	return ended
}

// endSilent ends the sessions with a server that failed to respond. The caller holds the lock.
func (all *sessions) endSilent(started int64, why error) {
	all.reset()
	all.silent.Add(all.end(why, "", func(s *session) bool { return s.started == started }))
}

// commits returns how many COMMITs have been waiting for longer than age, by the server that they
// wait for. The caller holds the lock.
func (all *sessions) commits(age time.Duration) (waiting map[int64]int) {
	before := int64(all.time() - age)
	waiting = map[int64]int{}
	seen := map[*session]bool{}
	for k := range all.sockets {
		s := k.session
		if sent := s.committing.Load(); sent != 0 && sent < before && s.ended.Load() == nil && !seen[s] {
			seen[s] = true
			waiting[s.started]++
		}
	}
	return waiting
}

// waiting returns how many COMMITs have been waiting for longer than age.
func (all *sessions) waiting(age time.Duration) (n int) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, some := range all.commits(age) {
		n += some
	}
	return n
}

// timeline returns the newest primary's, or 0.
func (all *sessions) timeline() uint32 {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.newest.timeline
}

// onReset makes reset replace the pool's connections. It must not wait.
func (all *sessions) onReset(reset func()) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.reset = reset
}

// socket is a session's open socket, or one that is being connected.
type socket struct {
	net.Conn // nil while it is being connected
	session  *session
	address  string
	began    time.Time
	cancel   context.CancelFunc // of connecting
}

// dial opens a socket to an address for a session.
func (all *sessions) dial(ctx context.Context, s *session, address string, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := &socket{session: s, address: address, began: time.Now(), cancel: cancel}
	all.mu.Lock()
	all.sockets[k] = struct{}{}
	all.mu.Unlock()
	conn, err := dial(ctx)
	all.mu.Lock()
	defer all.mu.Unlock()
	if err != nil {
		delete(all.sockets, k)
		return nil, err
	}
	k.Conn = conn
	return k, nil
}

// abandon closes the socket, or ends its connecting. The caller holds the lock.
func (k *socket) abandon() {
	if k.Conn == nil {
		k.cancel()
		return
	}
	_ = k.Conn.Close() // pgx gets an error from its next call
}

// Close implements net.Conn.
func (k *socket) Close() error {
	k.session.all.mu.Lock()
	defer k.session.all.mu.Unlock()
	delete(k.session.all.sockets, k)
	return k.Conn.Close()
}
