package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sluice/internal/reconnect"
)

const (
	// postgresConns is the pool's size if the DSN does not set pool_max_conns.
	postgresConns = 16
	// connectTimeout bounds connecting if the DSN does not set connect_timeout.
	connectTimeout = 5 * time.Second
	// minPostgres is the oldest supported version, as server_version_num.
	minPostgres = 130000
	// defaultCloseTimeout is how long Close waits for running COMMITs.
	defaultCloseTimeout = 5 * time.Second
	// migrationLock is the advisory lock around the migrations.
	migrationLock = 0x736c75696365 // "sluice"
)

// postgresSettings are the settings of every connection, unless the DSN sets them.
var postgresSettings = map[string]string{
	"application_name": "sluice",
	// Every query has an index. A scan, even if the table is small, would read unrelated rows and
	// conflict with their writers. The cost that the planner assigns to a forbidden scan would
	// start its compiler.
	"enable_seqscan": "off",
	"jit":            "off",
	// A node that hangs or is cut off must not hold its locks for more than five seconds.
	// Transactions never wait for anything but the server. Those that wait for a lock end first,
	// or each would inherit it and hold it for the second of these times; a node that does not
	// hang begins them again. A deadlock is detected after a second, before either of its waits
	// ends.
	"lock_timeout":                        "1500",
	"idle_in_transaction_session_timeout": "3000",
	"tcp_keepalives_idle":                 "15",
	"tcp_keepalives_interval":             "5",
	"tcp_keepalives_count":                "3",
	"tcp_user_timeout":                    "4000",
}

// OpenPostgres opens dsn's database; see sqlstore.OpenPostgres.
func OpenPostgres(ctx context.Context, dsn string, opt Options) (*DB, error) {
	p, err := openPostgresEngine(ctx, dsn, opt)
	var db *DB
	if err == nil {
		db, err = newDB(ctx, p, opt.Now)
	}
	if err != nil {
		return nil, fmt.Errorf("sqlstore: open PostgreSQL: %w", err)
	}
	return db, nil
}

func openPostgresEngine(ctx context.Context, dsn string, opt Options) (*postgresEngine, error) {
	config, err := postgresConfig(dsn)
	if err != nil {
		return nil, err
	}
	acked := &acknowledged{}
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		if err := checkPostgres(ctx, c); err != nil {
			return err
		}
		return acked.verify(ctx, c)
	}
	all := newSessions()
	hosts := newHosts(all, &config.ConnConfig.Config)
	p := &postgresEngine{
		acked:        acked,
		sessions:     all,
		hosts:        hosts,
		opening:      opening{reconnect.New(opensAtOnce), hosts},
		serverClock:  &serverClock{passed: passedOr(opt.Passed)},
		closeTimeout: defaultCloseTimeout,
		writeSlots:   make(chan struct{}, config.MaxConns/2),
		quit:         make(chan struct{}),
		done:         make(chan struct{}),
		commitCounts: newCommitCounts(),
	}
	config.ConnConfig.Tracer = p.opening
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		all.attach(c, p.generation.Load())
		return nil
	}
	if p.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	p.commits, p.abandon = context.WithCancel(context.Background())
	p.closing = sync.OnceValue(p.closeAll)
	all.onReset(func() {
		p.generation.Add(1)
		p.pool.Reset()
	})
	hosts.onSilent = func(err error) { p.observe(nil, classLost, err) }
	hosts.start(ctx)
	err = p.firstAnswer(ctx)
	if err == nil {
		err = p.prepare(ctx, opt)
	}
	if err != nil {
		hosts.stop()
		p.pool.Close()
		return nil, err
	}
	go p.loop()
	return p, nil
}

// startPatience is how long an opening waits for a server that accepts connections and is slow to
// answer, as while many nodes start.
const startPatience = time.Minute

// firstAnswer waits for the server's first answer. An attempt that is too slow is repeated, with
// more time.
func (p *postgresEngine) firstAnswer(ctx context.Context) error {
	for began := time.Now(); ; {
		err := p.measure(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil || time.Since(began) > startPatience {
			return err
		}
	}
}

// postgresConfig returns the pool's configuration: the DSN's settings, defaults for settings that
// the DSN leaves out, and those that every connection needs.
func postgresConfig(dsn string) (*pgxpool.Config, error) {
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
		config.PingTimeout = connectTimeout // do not wait for a connection that is silent
	}
	config.ConnConfig.BuildContextWatcherHandler = interrupt
	return config, nil
}

// checkPostgres refuses a server that could lose acknowledged commits in a crash, and fixes
// synchronous_commit for the connection.
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
		return fmt.Errorf("%w: version is %d, need at least %d", errUnfit, version, minPostgres)
	case fsync != "on":
		return fmt.Errorf("%w: fsync is %s: a crash would lose acknowledged writes; set it to on", errUnfit, fsync)
	case commit != "on" && commit != "remote_apply":
		return fmt.Errorf("%w: synchronous_commit is %s: a crash could lose acknowledged writes; set it to on or remote_apply", errUnfit, commit)
	}
	return nil
}

// postgresVersionTables counts the tables with the name schema_version.
const postgresVersionTables = `SELECT COUNT(*) FROM information_schema.tables
	WHERE table_schema = current_schema() AND table_name = 'schema_version'`

// prepare checks the schema and changes it, one node at a time.
func (p *postgresEngine) prepare(ctx context.Context, opt Options) error {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // closes the connection if it is still in the transaction
	c := &postgresConn{ctx: ctx, conn: conn.Conn()}
	list, err := migrations(postgresMigrations)
	if err != nil {
		return err
	}
	if opt.Schema == Keep {
		p.versions, err = checkVersion(c, list, opt.Schema, postgresVersionTables)
		return err
	}
	return p.migrate(ctx, c, list, opt.Schema)
}

// migrate checks the schema and applies the migrations in a transaction. If it fails, the
// transaction may be open.
func (p *postgresEngine) migrate(ctx context.Context, c *postgresConn, list []migration, change SchemaChange) (err error) {
	// A migration may take longer than other transactions wait for a lock.
	for _, query := range []string{"BEGIN; SET LOCAL lock_timeout = 0", fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", migrationLock)} {
		if _, err := c.send(query); err != nil {
			return err
		}
	}
	if p.versions, err = checkVersion(c, list, change, postgresVersionTables); err != nil {
		return err
	}
	if err := migrate(c, list); err != nil {
		return err
	}
	committing, cancel := context.WithCancel(p.commits)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	return c.commit(committing)
}
