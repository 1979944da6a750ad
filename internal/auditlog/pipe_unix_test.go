//go:build unix

package auditlog

import (
	"bufio"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"sluice/test/testenv"
)

// TestPipeWithoutAReader checks that a named pipe is refused while it has no reader, instead of
// waiting for one, and that lines go to the old file meanwhile.
// Invariant 191.
func TestPipeWithoutAReader(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	l := testenv.Must(Open(name, slog.New(slog.DiscardHandler)))(t)
	old := name + ".1"
	testenv.OK(t, os.Rename(name, old))
	testenv.OK(t, syscall.Mkfifo(name, 0o600))
	if _, err := Open(name, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a pipe without a reader was opened")
	}
	l.Reopen()
	for len(l.reopen) > 0 {
		runtime.Gosched()
	}
	add(l, "a")
	testenv.OK(t, l.Close())
	testenv.Equal(t, namesOf(t, string(testenv.Must(os.ReadFile(old))(t))), "a", "lines")

	reader := testenv.Must(os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0))(t)
	piped := testenv.Must(Open(name, slog.New(slog.DiscardHandler)))(t)
	add(piped, "b")
	line, err := bufio.NewReader(reader).ReadString('\n')
	testenv.OK(t, err)
	testenv.Equal(t, namesOf(t, line), "b", "line in the pipe")
	testenv.OK(t, piped.Close())
	testenv.OK(t, reader.Close())
}
