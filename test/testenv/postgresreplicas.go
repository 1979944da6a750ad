package testenv

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
)

// HostsDSN returns a connection string that names all servers.
func HostsDSN(servers ...*PostgresServer) string {
	var hosts []string
	for _, s := range servers {
		hosts = append(hosts, s.host())
	}
	q := url.Values{"host": {strings.Join(hosts, ",")}, "user": {postgresUser}, "dbname": {"postgres"}, "sslmode": {"disable"}, "target_session_attrs": {"read-write"}}
	return "postgres:///?" + q.Encode()
}

// host returns how other servers reach the server: its address, or the folder of its socket.
func (s *PostgresServer) host() string {
	if s.address != "" {
		return s.address
	}
	return s.dir
}

// Follow makes a standby follow another primary.
func (s *PostgresServer) Follow(primary *PostgresServer) error {
	return errors.Join(s.Exec(fmt.Sprintf("ALTER SYSTEM SET primary_conninfo = 'host=%s user=%s'", primary.host(), postgresUser)),
		s.Exec("SELECT pg_reload_conf()"))
}

// Rejoin replaces the server's data by a copy of a primary's. It is then its standby.
func (s *PostgresServer) Rejoin(primary *PostgresServer) error {
	if s.process != nil {
		if err := s.Stop(); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	if err := primary.backUp(s); err != nil {
		return err
	}
	return s.Start()
}

// Received returns how much of its primary's log a standby has on its disk, as a position in bytes.
// Before it receives anything after its start, that is the part which it has applied.
func (s *PostgresServer) Received() (position int64, err error) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return 0, err
	}
	err = conn.QueryRow(ctx, `SELECT CAST(GREATEST(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0' AS BIGINT)`).Scan(&position)
	return position, errors.Join(err, conn.Close(ctx))
}

// Archive is a server's backup, and the log since then.
type Archive struct {
	server *PostgresServer
	dir    string
}

// Archive restarts the server so that it archives its log, and makes a backup.
func (s *PostgresServer) Archive() (Archive, error) {
	a := Archive{s, filepath.Join(s.dir, "archive")}
	if err := os.Mkdir(a.dir, 0o700); err != nil {
		return a, err
	}
	if err := s.owns(a.dir); err != nil {
		return a, err
	}
	s.settings = append(s.settings, "archive_mode=on", "archive_command=cp %p "+filepath.Join(a.dir, "%f"))
	if err := errors.Join(s.StopFast(), s.Start()); err != nil {
		return a, err
	}
	return a, s.run(s.command("pg_basebackup", "--host="+s.dir, "--username="+postgresUser, "--pgdata="+filepath.Join(s.dir, "backup"), "--checkpoint=fast", "--no-sync"))
}

// Mark names the present state, for Restore.
func (a Archive) Mark(name string) error {
	return a.server.Exec("SELECT pg_create_restore_point('" + name + "')")
}

// Restore stops the server, replaces its data by the backup, replays the log up to a mark, and
// waits until it is a primary.
func (a Archive) Restore(mark string) error {
	s := a.server
	// A fast shutdown archives the log's rest.
	if err := errors.Join(s.Exec("SELECT pg_switch_wal()"), s.StopFast(), os.RemoveAll(s.data()), os.Rename(filepath.Join(s.dir, "backup"), s.data()),
		os.WriteFile(filepath.Join(s.data(), "recovery.signal"), nil, 0o600), s.owns(filepath.Join(s.data(), "recovery.signal"))); err != nil {
		return err
	}
	if err := s.Start("restore_command=cp "+filepath.Join(a.dir, "%f")+" %p", "recovery_target_name="+mark, "recovery_target_action=promote"); err != nil {
		return err
	}
	return s.awaitPrimary()
}

// awaitPrimary waits until a server has ended its recovery.
func (s *PostgresServer) awaitPrimary() error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return err
	}
	for standby := true; standby && err == nil; {
		err = conn.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&standby)
	}
	return errors.Join(err, conn.Close(ctx))
}
