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
		if _, err := os.Stdout.WriteString(StartPostgres(t).DSN() + "\n"); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	Require(t, PostgreSQL)
	// The killed process does not remove its folder, which the server's user must be able to enter,
	// unlike t.TempDir.
	dir, err := os.MkdirTemp("", "sluice-inner-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	inner := exec.Command(self, "-test.run=^TestPostgresEndsWithItsProcess$")
	inner.Env = append(os.Environ(), "SLUICE_TESTENV_INNER=1", "TMPDIR="+dir)
	out, err := inner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := inner.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	conn, err := pgx.Connect(t.Context(), lines.Text())
	if err != nil {
		t.Fatal(err)
	}
	if err := inner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := inner.Wait(); err == nil {
		t.Error("a killed process exited with success")
	}
	if _, err := conn.WaitForNotification(t.Context()); err == nil || !conn.IsClosed() {
		t.Errorf("the server still runs: %v", err)
	}
}
