package testenv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// postgresUser is the superuser in the databases that this package creates. It has no password: the
// folder's permissions protect the socket.
const postgresUser = "sluice"

// PostgresServer is a private PostgreSQL server in a temporary folder, reached through a Unix
// socket in that folder. It runs with fsync on; a test's folder is in memory where the system has
// one, like MemoryDir's. On Linux the server ends with the process that started it, even if that
// process is killed. Its methods must not be called concurrently.
type PostgresServer struct {
	dir     string // contains the socket and the data
	bin     string
	user    *osUser     // nil: the user of this process
	process *os.Process // nil while the server is stopped
	ended   chan error
	thaw    func() error // continues a frozen server; nil: it is not frozen

	settings []string     // of every start
	address  string       // where other machines reach it, in addition to the socket; "": nowhere
	enter    func() error // moves a thread to the server's machine; nil: this one
}

// StartPostgres creates an empty database and starts a server for it. The server is stopped and
// removed when the test ends. All these servers have the same system identifier. It calls Require
// for PostgreSQL.
func StartPostgres(tb testing.TB) *PostgresServer {
	tb.Helper()
	Require(tb, PostgreSQL)
	return startedFor(tb, func() (*PostgresServer, error) { return newPostgres(rootFor(tb)) })
}

// StartOtherCluster is StartPostgres for a server with a system identifier of its own.
func StartOtherCluster(tb testing.TB) *PostgresServer {
	tb.Helper()
	Require(tb, PostgreSQL)
	return startedFor(tb, func() (*PostgresServer, error) {
		return newServer(rootFor(tb), &PostgresServer{}, (*PostgresServer).initialize)
	})
}

// StartStandby copies a running primary and starts a standby server that follows it until Promote.
// The standby is stopped and removed when the test ends.
func StartStandby(tb testing.TB, primary *PostgresServer) *PostgresServer {
	tb.Helper()
	return startedFor(tb, func() (*PostgresServer, error) {
		return newServer(rootFor(tb), &PostgresServer{}, primary.backUp)
	})
}

// backUp fills a server's data folder so that it is a standby of s.
func (s *PostgresServer) backUp(standby *PostgresServer) error {
	return standby.run(standby.command("pg_basebackup", "--host="+s.host(), "--username="+postgresUser, "--pgdata="+standby.data(),
		"--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf", "--no-sync"))
}

func startedFor(tb testing.TB, start func() (*PostgresServer, error)) *PostgresServer {
	tb.Helper()
	s, err := start()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.remove(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// newPostgres starts a server on a new folder in root; "" is the default folder of temporary files.
func newPostgres(root string) (*PostgresServer, error) {
	return newServer(root, &PostgresServer{}, (*PostgresServer).initialCopy)
}

// initdb is the command for an empty database. Names are compared by their bytes, so no locale is
// needed. The empty database's files need not be synced: if the machine crashes, the test ends as
// well.
var initdb = []string{"initdb", "--username=" + postgresUser, "--auth=trust", "--no-locale", "--encoding=UTF8", "--no-sync", "--no-instructions"}

// initialize fills the server's data folder with an empty database.
func (s *PostgresServer) initialize() error {
	return s.run(s.command(initdb[0], append(initdb[1:len(initdb):len(initdb)], "--pgdata="+s.data())...))
}

// initialCopy is initialize by a copy from the user's cache, where the first call puts it.
func (s *PostgresServer) initialCopy() error {
	kept, err := keptCluster(filepath.Join(s.bin, initdb[0]), initdb[1:])
	if err != nil {
		return err
	}
	err = extractCluster(s.data(), kept, s.owns)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.initialize(); err != nil {
		return err
	}
	return keepCluster(kept, s.data())
}

// run runs a command of PostgreSQL to its end.
func (s *PostgresServer) run(command *exec.Cmd) error {
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("testenv: %s: %w\n%s", command.Path, err, out)
	}
	return nil
}

// newServer starts s on the data folder that fill creates, in a new folder in root.
func newServer(root string, s *PostgresServer, fill func(*PostgresServer) error) (_ *PostgresServer, err error) {
	if s.bin, err = PostgresBin(); err != nil {
		return nil, err
	}
	if s.user, err = serverUser(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp(root, "sluice-postgres-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.remove())
		}
	}()
	if err := s.owns(s.dir); err != nil {
		return nil, err
	}
	if s.address != "" {
		if err := os.WriteFile(s.access(), []byte(trusted), 0o644); err != nil {
			return nil, err
		}
		s.settings = append(s.settings, "hba_file="+s.access())
	}
	if err := fill(s); err != nil {
		return nil, err
	}
	return s, s.Start()
}

// owns makes the server's user a file's owner.
func (s *PostgresServer) owns(path string) error {
	if s.user == nil {
		return nil
	}
	return os.Chown(path, int(s.user.uid), int(s.user.gid))
}

func (s *PostgresServer) data() string { return filepath.Join(s.dir, "data") }

// access returns the file of a server with an address that lists who may connect.
func (s *PostgresServer) access() string { return filepath.Join(s.dir, "access.conf") }

// trusted is the content of access: everyone on a Switch may connect, and be a standby.
const trusted = "local all all trust\nlocal replication all trust\nhost all all 10.231.0.0/16 trust\nhost replication all 10.231.0.0/16 trust\n"

func (s *PostgresServer) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PGDATA=")
	cmd.SysProcAttr = childAttributes(s.user, syscall.SIGQUIT) // PostgreSQL's immediate shutdown
	return cmd
}

// Socket returns the path to the Unix socket that the server listens on.
func (s *PostgresServer) Socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

// DSN returns the connection string for the server's database.
func (s *PostgresServer) DSN() string {
	q := url.Values{"host": {s.dir}, "user": {postgresUser}, "dbname": {"postgres"}, "sslmode": {"disable"}}
	return "postgres:///?" + q.Encode()
}

// Start starts the server and waits until it accepts connections, which includes the recovery after
// a Stop. Each setting has the form name=value.
func (s *PostgresServer) Start(settings ...string) error {
	if s.process != nil {
		return errors.New("testenv: the server is already running")
	}
	args := []string{"-D", s.data(), "-k", s.dir}
	for _, setting := range slices.Concat([]string{"listen_addresses=", "port=5432", "fsync=on", "max_connections=200", "shared_buffers=64MB",
		"wal_retrieve_retry_interval=100ms"}, s.settings, settings) {
		args = append(args, "-c", setting)
	}
	cmd := s.command("postgres", args...)
	log, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The kernel sends the parent-death signal when the starting thread ends.
		runtime.LockOSThread()
		if s.enter == nil {
			defer runtime.UnlockOSThread() // otherwise nothing else must run on it, and it ends
		} else if err := s.enter(); err != nil {
			started <- err
			return
		}
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		awaitReady(log, started)
		ended <- cmd.Wait()
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("testenv: postgres: %w", err)
	}
	s.process, s.ended = cmd.Process, ended
	return nil
}

// awaitReady reads the server's log to its end. It sends nil to started once the log reports that
// the server is ready, or an error with the log if the server ends before that.
func awaitReady(log io.Reader, started chan<- error) {
	var printed []string
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if started == nil {
			continue
		}
		printed = append(printed, lines.Text())
		if strings.Contains(lines.Text(), "database system is ready to accept") {
			started <- nil
			started = nil
		}
	}
	if started != nil {
		started <- fmt.Errorf("it ended:\n%s", strings.Join(printed, "\n"))
	}
}

// Stop stops the server immediately, like a crash: open transactions are aborted, and the next
// Start recovers from the write-ahead log.
func (s *PostgresServer) Stop() error { return s.stop(syscall.SIGQUIT) }

// StopFast requests PostgreSQL's fast shutdown: it rolls back open transactions and disconnects the
// clients.
func (s *PostgresServer) StopFast() error { return s.stop(syscall.SIGINT) }

func (s *PostgresServer) stop(signal syscall.Signal) error {
	if s.process == nil {
		return errors.New("testenv: the server is not running")
	}
	if err := s.process.Signal(signal); err != nil {
		return err
	}
	if s.thaw != nil {
		if err := s.thaw(); err != nil {
			return err
		}
		s.thaw = nil
	}
	err := <-s.ended
	s.process = nil
	var exit *exec.ExitError
	if errors.As(err, &exit) && signal == syscall.SIGQUIT {
		err = nil // an immediate shutdown has a non-zero exit code
	}
	return err
}

// Exec executes a statement on a new connection.
func (s *PostgresServer) Exec(statement string) error { return execute(s, statement) }

// Promote turns a standby into a primary.
func (s *PostgresServer) Promote() error { return s.Exec("SELECT pg_promote()") }

// AwaitStandby waits until the server's standby has applied everything.
func (s *PostgresServer) AwaitStandby() error { return s.AwaitStandbys(1) }

// AwaitStandbys waits until n standbys are connected, and have applied everything until the call.
func (s *PostgresServer) AwaitStandbys(n int) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return err
	}
	var end string
	err = conn.QueryRow(ctx, `SELECT CAST(pg_current_wal_lsn() AS TEXT)`).Scan(&end)
	for applied := false; !applied && err == nil; {
		err = conn.QueryRow(ctx, `SELECT COUNT(*) >= $1 FROM pg_stat_replication WHERE replay_lsn >= CAST($2 AS PG_LSN)`, n, end).Scan(&applied)
	}
	return errors.Join(err, conn.Close(ctx))
}

func (s *PostgresServer) remove() error {
	var err error
	if s.process != nil {
		err = s.Stop()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// shared is the server of all tests that use Postgres concurrently.
var shared struct {
	sync.Mutex
	server  *PostgresServer
	conn    *pgx.Conn // creates and drops the schemas
	users   int
	schemas int
}

// Postgres returns an empty schema's DSN, which is dropped when the test ends. Concurrent tests of
// one process share a server: the first starts it, and the last to end removes it, or KeepPostgres
// after all of them. It calls Require for PostgreSQL.
func Postgres(tb testing.TB) string {
	tb.Helper()
	Require(tb, PostgreSQL)
	server, schema, err := acquireShared(rootFor(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := releaseShared(schema); err != nil {
			tb.Error(err)
		}
	})
	return server.DSN() + "&search_path=" + schema
}

func acquireShared(root string) (*PostgresServer, string, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		if err := startShared(root); err != nil {
			return nil, "", err
		}
	}
	shared.users++
	shared.schemas++
	schema := fmt.Sprint("test", shared.schemas)
	_, err := shared.conn.Exec(context.Background(), "CREATE SCHEMA "+schema)
	return shared.server, schema, err
}

func startShared(root string) error {
	server, err := newPostgres(root)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(context.Background(), server.DSN())
	if err != nil {
		return errors.Join(err, server.remove())
	}
	shared.server, shared.conn = server, conn
	return nil
}

func releaseShared(schema string) error {
	shared.Lock()
	defer shared.Unlock()
	_, err := shared.conn.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
	return errors.Join(err, leaveShared())
}

// leaveShared removes the server when its last user leaves it. The caller holds the lock.
func leaveShared() error {
	if shared.users--; shared.users > 0 || shared.server == nil {
		return nil
	}
	err := errors.Join(shared.conn.Close(context.Background()), shared.server.remove())
	shared.server, shared.conn = nil, nil
	return err
}

// KeepPostgres returns a package's tests such that the server of Postgres, once a test has started
// it, runs until the last of them has ended. It is for TestMain.
func KeepPostgres(m *testing.M) interface{ Run() int } { return keeping{m} }

type keeping struct{ tests *testing.M }

// Run runs the tests.
func (k keeping) Run() int {
	shared.Lock()
	shared.users++
	shared.Unlock()
	code := k.tests.Run()
	shared.Lock()
	defer shared.Unlock()
	if err := leaveShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func execute(s *PostgresServer, statement string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}
