package testenv

import (
	"bufio"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestPostgresEndsWithItsProcess kills a process that started a server, and waits until the server
// closes a connection.
func TestPostgresEndsWithItsProcess(t *testing.T) {
	if os.Getenv("SLUICE_TESTENV_INNER") == "1" {
		Must(os.Stdout.WriteString(StartPostgres(t).DSN() + "\n"))(t)
		select {}
	}
	Require(t, PostgreSQL)
	// The killed process does not remove its folder, which the server's user must be able to enter,
	// unlike t.TempDir.
	dir := Must(os.MkdirTemp("", "sluice-inner-"))(t)
	t.Cleanup(func() {
		Check(t, os.RemoveAll(dir))
	})
	OK(t, os.Chmod(dir, 0o755))
	self := Must(os.Executable())(t)
	inner := exec.Command(self, "-test.run=^TestPostgresEndsWithItsProcess$")
	inner.Env = append(os.Environ(), "SLUICE_TESTENV_INNER=1", "TMPDIR="+dir)
	out := Must(inner.StdoutPipe())(t)
	OK(t, inner.Start())
	lines := bufio.NewScanner(out)
	lines.Scan()
	conn := Must(pgx.Connect(t.Context(), lines.Text()))(t)
	OK(t, inner.Process.Kill())
	if err := inner.Wait(); err == nil {
		t.Error("a killed process exited with success")
	}
	if _, err := conn.WaitForNotification(t.Context()); err == nil || !conn.IsClosed() {
		t.Errorf("the server still runs: %v", err)
	}
}
