package testenv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// postgresUser is the superuser of the databases that are made here. There are
// no passwords: only who may enter the folder reaches the socket.
const postgresUser = "sluice"

// PostgresServer is a private PostgreSQL in a temporary folder, reached by a
// socket in it. It syncs what it commits, as one in earnest does. It ends with
// the process that started it, whatever ends that. Its methods may not be
// called at once.
type PostgresServer struct {
	dir        string // holds the socket and the data
	bin        string
	credential *syscall.Credential // nil: that of this process
	process    *os.Process         // nil while it is stopped
	ended      chan error
}

// PostgresBin finds the folder of PostgreSQL's programs, the newest when there
// are several.
func PostgresBin() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // Debian's place
	if err != nil {
		return "", err
	}
	newest := ""
	for _, path := range found {
		if version(path) >= version(newest) {
			newest = path
		}
	}
	if newest == "" {
		return "", errors.New("no postgres in PATH or /usr/lib/postgresql")
	}
	return filepath.Dir(newest), nil
}

// version is the number in /usr/lib/postgresql/15/bin/postgres.
func version(path string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	if err != nil {
		return 0
	}
	return n
}

// StartPostgres makes an empty database and starts a server for it, which is
// stopped and removed with the test. It calls Require for PostgreSQL.
func StartPostgres(tb testing.TB) *PostgresServer {
	tb.Helper()
	Require(tb, PostgreSQL)
	return startedFor(tb, newPostgres)
}

// StartStandby makes a copy of a running primary and starts a server for it that
// follows the primary, until Promote. It is stopped and removed with the test.
func StartStandby(tb testing.TB, primary *PostgresServer) *PostgresServer {
	tb.Helper()
	return startedFor(tb, func() (*PostgresServer, error) {
		return newServer(func(s *PostgresServer) *exec.Cmd {
			return s.command("pg_basebackup", "--host="+primary.dir, "--username="+postgresUser, "--pgdata="+s.data(),
				"--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf", "--no-sync")
		})
	})
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

func newPostgres() (*PostgresServer, error) {
	return newServer(func(s *PostgresServer) *exec.Cmd {
		// The bytes of names need no locale. That the files of the empty database
		// are not synced matters to nobody: it goes with the test.
		return s.command("initdb", "--pgdata="+s.data(), "--username="+postgresUser, "--auth=trust",
			"--no-locale", "--encoding=UTF8", "--no-sync", "--no-instructions")
	})
}

// newServer starts a server on data that a command makes.
func newServer(fill func(*PostgresServer) *exec.Cmd) (_ *PostgresServer, err error) {
	s := &PostgresServer{}
	if s.bin, err = PostgresBin(); err != nil {
		return nil, err
	}
	if s.credential, err = postgresCredential(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "sluice-postgres-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.remove())
		}
	}()
	if s.credential != nil {
		if err := os.Chown(s.dir, int(s.credential.Uid), int(s.credential.Gid)); err != nil {
			return nil, err
		}
	}
	if out, err := fill(s).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("testenv: making a database: %w\n%s", err, out)
	}
	return s, s.Start()
}

func (s *PostgresServer) data() string { return filepath.Join(s.dir, "data") }

func (s *PostgresServer) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PGDATA=")
	cmd.SysProcAttr = endsWithParent(syscall.SIGQUIT) // PostgreSQL's immediate shutdown
	cmd.SysProcAttr.Credential = s.credential
	return cmd
}

// postgresCredential is who the server runs as: PostgreSQL refuses to run as
// root.
func postgresCredential() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uerr, gerr); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("neither user postgres nor nobody is there to run PostgreSQL, which refuses to run as root")
}

// Socket is the file that the server listens on.
func (s *PostgresServer) Socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

// DSN names the server's database.
func (s *PostgresServer) DSN() string {
	q := url.Values{"host": {s.dir}, "user": {postgresUser}, "dbname": {"postgres"}, "sslmode": {"disable"}}
	return "postgres:///?" + q.Encode()
}

// Start starts the server and waits until it takes connections: after a Stop,
// until it has recovered. Further settings are name=value.
func (s *PostgresServer) Start(settings ...string) error {
	if s.process != nil {
		return errors.New("testenv: the server runs already")
	}
	args := []string{"-D", s.data(), "-k", s.dir}
	for _, setting := range append([]string{"listen_addresses=", "port=5432", "fsync=on", "max_connections=200", "shared_buffers=64MB"}, settings...) {
		args = append(args, "-c", setting)
	}
	cmd := s.command("postgres", args...)
	log, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The signal at the parent's death is sent at that of its thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
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

// awaitReady reads the server's log to its end, and tells when it says that the
// server is ready, or else what it said.
func awaitReady(log io.Reader, started chan<- error) {
	var said []string
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if started == nil {
			continue
		}
		said = append(said, lines.Text())
		if strings.Contains(lines.Text(), "database system is ready to accept") {
			started <- nil
			started = nil
		}
	}
	if started != nil {
		started <- fmt.Errorf("it ended:\n%s", strings.Join(said, "\n"))
	}
}

// Stop stops the server at once, as a crash would: transactions at work are cut
// and recovered from the log by the next Start.
func (s *PostgresServer) Stop() error { return s.stop(syscall.SIGQUIT) }

// StopFast stops the server in order: what waits is interrupted, and what is at
// work is undone.
func (s *PostgresServer) StopFast() error { return s.stop(syscall.SIGINT) }

func (s *PostgresServer) stop(signal syscall.Signal) error {
	if s.process == nil {
		return errors.New("testenv: the server does not run")
	}
	if err := s.process.Signal(signal); err != nil {
		return err
	}
	err := <-s.ended
	s.process = nil
	var exit *exec.ExitError
	if errors.As(err, &exit) && signal == syscall.SIGQUIT {
		err = nil // an immediate shutdown says so by its exit code
	}
	return err
}

// Exec runs a statement.
func (s *PostgresServer) Exec(statement string) error { return execute(s, statement) }

// Promote makes a primary of a standby.
func (s *PostgresServer) Promote() error { return s.Exec("SELECT pg_promote()") }

func (s *PostgresServer) remove() error {
	var err error
	if s.process != nil {
		err = s.Stop()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// shared is the server of the tests that use Postgres at the same time.
var shared struct {
	sync.Mutex
	server  *PostgresServer
	users   int
	schemas int
}

// Postgres gives the DSN of an empty schema for one test, which is dropped with
// it. Tests of one process that run at the same time share a server; one is
// started for the first of them and removed with the last. It calls Require for
// PostgreSQL.
func Postgres(tb testing.TB) string {
	tb.Helper()
	Require(tb, PostgreSQL)
	server, schema, err := useShared()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := leaveShared(schema); err != nil {
			tb.Error(err)
		}
	})
	if err := execute(server, "CREATE SCHEMA "+schema); err != nil {
		tb.Fatal(err)
	}
	return server.DSN() + "&search_path=" + schema
}

func useShared() (*PostgresServer, string, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		server, err := newPostgres()
		if err != nil {
			return nil, "", err
		}
		shared.server = server
	}
	shared.users++
	shared.schemas++
	return shared.server, fmt.Sprint("test", shared.schemas), nil
}

func leaveShared(schema string) error {
	shared.Lock()
	defer shared.Unlock()
	err := execute(shared.server, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
	if shared.users--; shared.users == 0 {
		err = errors.Join(err, shared.server.remove())
		shared.server = nil
	}
	return err
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
