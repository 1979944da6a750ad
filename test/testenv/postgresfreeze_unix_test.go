//go:build unix

package testenv

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestFrozenServer: a frozen server responds to nothing, and goes on when it is thawed.
func TestFrozenServer(t *testing.T) {
	server := StartPostgres(t)
	open := Must(pgx.Connect(t.Context(), server.DSN()))(t)
	OK(t, server.Freeze())
	OK(t, open.PgConn().Conn().SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	if _, err := open.PgConn().Conn().Write([]byte("Q\x00\x00\x00\x0dSELECT 1\x00")); err != nil {
		t.Error(err)
	}
	_, err := open.PgConn().Conn().Read(make([]byte, 1))
	Is(t, err, os.ErrDeadlineExceeded, "a read from a frozen server")
	OK(t, server.Thaw())
	OK(t, open.PgConn().Conn().SetReadDeadline(time.Time{}))
	if _, err := open.PgConn().Conn().Read(make([]byte, 1)); err != nil {
		t.Errorf("a read from a server that was thawed: %v", err)
	}
	OK(t, errors.Join(open.PgConn().Conn().Close(), server.Exec("SELECT 1"), server.Freeze()))
}
