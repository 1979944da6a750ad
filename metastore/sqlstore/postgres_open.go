package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// postgresConns is the size of a store's pool where the DSN does not set
	// pool_max_conns.
	postgresConns = 16
	// connectLimit bounds the making of a connection where the DSN does not.
	connectTimeout = 5 * time.Second
	// minPostgres is the oldest version that works, as server_version_num.
	minPostgres = 130000
	// closeLimit is for how long a store that is closed waits for its COMMITs.
	defaultCloseTimeout = 5 * time.Second
	// migrationLock is the advisory lock around the migrations of a database.
	migrationLock = 0x736c75696365 // "sluice"
)

// postgresSettings are those of every connection, where the DSN does not say
// otherwise.
var postgresSettings = map[string]string{
	"application_name": "sluice",
	// Every query has its index. A scan of a small table would read, and so
	// conflict with, rows that are none of the transaction's business. What the
	// planner then makes of the costs would start its compiler.
	"enable_seqscan": "off",
	"jit":            "off",
	// A node that hangs or was cut off must not hold its locks for more than five
	// seconds. Our transactions never wait for anything but the server.
	"idle_in_transaction_session_timeout": "4000",
	"tcp_keepalives_idle":                 "15",
	"tcp_keepalives_interval":             "5",
	"tcp_keepalives_count":                "3",
	"tcp_user_timeout":                    "4000",
}

// OpenPostgres opens the database that dsn names, a URL or a list of
// keyword=value as libpq takes them, and brings its schema (the first of the
// search_path) up to date. Any number of nodes may open it at once; one of them
// migrates. metastore.ErrNewer when a newer program wrote it; with opt.Existing
// metastore.ErrOlder when it is not up to date. ctx bounds the opening.
//
// It must be PostgreSQL 13 or newer, with fsync on, and synchronous_commit on
// or remote_apply for the user; each connection is checked for it, and keeps
// its own setting when the server's is weakened later. A connection pooler must
// give each connection a session of its own.
//
// pool_max_conns in dsn is the greatest number of connections, at least 2 (16).
// dsn may name several servers (host=A,B): the one that takes writes is used. A
// server that takes none is refused, also when a connection is made anew.
//
// Half of the connections are for writes, so that reads go on whatever writes wait for.
// While the server cannot be reached, calls are tried again for as long as their
// patience lasts and are then metastore.ErrUnavailable. A COMMIT is never
// cancelled: when it is not answered in that time, as while a synchronous standby
// is away, the call is metastore.ErrUnknownOutcome, and the connection and its
// place among the writers stay taken until it is. When the answer was lost, the
// outcome is settled by asking the server.
func OpenPostgres(ctx context.Context, dsn string, opt Options) (*Store, error) {
	p, err := openPostgres(ctx, dsn, opt)
	if err != nil {
		return nil, fmt.Errorf("sqlstore: open PostgreSQL: %w", err)
	}
	return newStore(p.engine(), opt), nil
}

// postgres is a pool of connections, of which writers may hold only a half: they
// wait for locks and for standbys, reads for neither.
type postgresEngine struct {
	pool         *pgxpool.Pool
	closeTimeout time.Duration         // for how long close waits for the COMMITs at work
	writeSlots   chan struct{}         // holds a token for each write transaction, until its COMMIT is answered
	detached     atomic.Int64          // how many of these have a COMMIT that its caller no longer waits for
	down         atomic.Pointer[error] // why the server could not be reached when it was tried last
	commits      context.Context       // of every COMMIT; no deadline, and abandon alone cancels it
	abandon      context.CancelFunc
	clock        *serverClock
	quit         chan struct{} // closed when the store is
	done         chan struct{} // closed when the loop has ended
}

func openPostgres(ctx context.Context, dsn string, opt Options) (*postgresEngine, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(dsn, "pool_max_conns") {
		config.MaxConns = postgresConns
	}
	if config.MaxConns < 2 {
		return nil, errors.New("pool_max_conns must be at least 2: one connection for writes and one for reads")
	}
	for name, value := range postgresSettings {
		if _, set := config.ConnConfig.RuntimeParams[name]; !set {
			config.ConnConfig.RuntimeParams[name] = value
		}
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if !strings.Contains(dsn, "pool_ping_timeout") {
		config.PingTimeout = connectTimeout // a connection that went silent must not be waited for
	}
	config.ConnConfig.ValidateConnect = checkWritable
	config.ConnConfig.BuildContextWatcherHandler = interrupt
	config.BeforeConnect = watchCommits
	config.AfterConnect = checkPostgres
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	p := &postgresEngine{
		pool:         pool,
		clock:        &serverClock{passed: passedOr(opt.passed)},
		closeTimeout: defaultCloseTimeout,
		writeSlots:   make(chan struct{}, config.MaxConns/2),
		quit:         make(chan struct{}),
		done:         make(chan struct{}),
	}
	p.commits, p.abandon = context.WithCancel(context.Background())
	if err := p.measure(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	if err := p.prepare(ctx, opt.Existing); err != nil {
		pool.Close()
		return nil, err
	}
	go p.loop()
	return p, nil
}

func (p *postgresEngine) engine() engine {
	return engine{
		write:       p.write,
		writeLocked: p.writeLocked,
		read:        p.read,
		snapshot:    p.snapshot,
		err:         p.err,
		time:        p.clock,
		clock:       postgresClock,
		headIs:      "name_head = $2 AND sha256(name_head) = sha256($2)",
		close:       sync.OnceValue(p.close),
	}
}

func (p *postgresEngine) err() error {
	if p.isClosed() {
		return ErrClosed
	}
	if err := p.down.Load(); err != nil {
		return *err
	}
	return nil
}

func (p *postgresEngine) isClosed() bool {
	select {
	case <-p.quit:
		return true
	default:
		return false
	}
}

func (p *postgresEngine) close() error {
	close(p.quit)
	<-p.done
	timer := time.AfterFunc(p.closeTimeout, p.abandon)
	defer timer.Stop()
	p.pool.Close() // waits for the transactions at work
	p.abandon()
	return nil
}

// checkPostgres refuses a server that would acknowledge what a crash loses, and
// fixes the connection's own part of that.
func checkPostgres(ctx context.Context, c *pgx.Conn) error {
	var fsync, commit string
	var version int
	err := c.QueryRow(ctx, `SELECT current_setting('fsync'),
		set_config('synchronous_commit', current_setting('synchronous_commit'), false),
		CAST(current_setting('server_version_num') AS INTEGER)`).Scan(&fsync, &commit, &version)
	switch {
	case err != nil:
		return err
	case version < minPostgres:
		return fmt.Errorf("%w: version is %d, at least %d is needed", errUnfit, version, minPostgres)
	case fsync != "on":
		return fmt.Errorf("%w: fsync is %s: a crash would lose what was acknowledged; set it to on", errUnfit, fsync)
	case commit != "on" && commit != "remote_apply":
		return fmt.Errorf("%w: synchronous_commit is %s: a crash could lose what was acknowledged; set it to on or remote_apply", errUnfit, commit)
	}
	return nil
}

// checkWritable refuses a server that takes no writes, so that the next host of the
// DSN is tried. What such a server shows may be old, so that reads do not go there.
func checkWritable(ctx context.Context, c *pgconn.PgConn) error {
	results, err := c.Exec(ctx, `SELECT pg_is_in_recovery(), current_setting('transaction_read_only')`).ReadAll()
	if err != nil {
		return err
	}
	row := results[0].Rows[0]
	switch {
	case string(row[0]) == "t":
		return errors.New("the PostgreSQL server is a standby: name the primary, or all servers, in the DSN")
	case string(row[1]) == "on":
		return errors.New("the PostgreSQL server is read-only for this user: set default_transaction_read_only to off")
	}
	return nil
}

// errUnfit refuses a server.
var errUnfit = errors.New("the PostgreSQL server cannot be used")

// prepare brings the schema up to date, one node at a time; or, when it must
// exist already, checks that it is.
func (p *postgresEngine) prepare(ctx context.Context, existing bool) error {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // closes it if it is still in the transaction
	c := &postgresConn{ctx: ctx, conn: conn.Conn()}
	list, err := migrations(postgresMigrations)
	if err != nil {
		return err
	}
	if existing {
		return checkVersion(c, list, `SELECT COUNT(*) FROM information_schema.tables
			WHERE table_schema = current_schema() AND table_name = 'schema_version'`)
	}
	for _, query := range []string{"BEGIN", fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", migrationLock)} {
		if _, err := c.send(query); err != nil {
			return err
		}
	}
	if err := migrate(c, list); err != nil {
		return err
	}
	committing, cancel := context.WithCancel(p.commits)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	return c.commit(committing)
}

// postgresMicros is the time of the server, not of the transaction, in microseconds
// since 1970.
const postgresMicros = `CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)`

// postgresClock asks for the time of the server, not of the transaction.
func postgresClock(t *tx) (time.Time, error) {
	var micros int64
	_, err := t.row(`SELECT `+postgresMicros, nil, (*integer)(&micros))
	return time.UnixMicro(micros).UTC(), err
}
