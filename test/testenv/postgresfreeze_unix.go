//go:build unix

package testenv

import (
	"context"
	"errors"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// Freeze stops the server's processes, as a machine that hangs does: the kernel still accepts
// connections and keeps the open ones, and nothing responds. Thaw continues them; so do Stop and
// StopFast, before they stop the server.
func (s *PostgresServer) Freeze() (err error) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, conn.PgConn().Conn().Close()) // the server does not respond any more
	}()
	pids := []int{s.process.Pid}
	s.thaw = func() error {
		var errs []error
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGCONT); !errors.Is(err, syscall.ESRCH) {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}
	// The process that starts all other processes is stopped first, so that the list is complete.
	if err := syscall.Kill(s.process.Pid, syscall.SIGSTOP); err != nil {
		return err
	}
	rows, err := conn.Query(ctx, "SELECT pid FROM pg_stat_activity")
	if err != nil {
		return err
	}
	children, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return err
	}
	for _, pid := range children {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		pids = append(pids, pid)
	}
	return nil
}

// Thaw continues a server after Freeze.
func (s *PostgresServer) Thaw() error {
	thaw := s.thaw
	s.thaw = nil
	return thaw()
}
