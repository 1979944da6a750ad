//go:build unix

package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"

	"sluice/database"
	"sluice/test/testenv"
)

// runChild runs a re-executed test binary's job on the database at path.
func runChild(job, path string) error {
	switch job {
	case "fail":
		return writeUntilStopped(path)
	case "quota":
		return writeBeyondQuota(path)
	case "queue":
		return queueForLock(path)
	}
	return fmt.Errorf("no job %q", job)
}

// child starts a job in another process.
func child(t *testing.T, job, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$", path)
	cmd.Env = append(os.Environ(), childEnv+"="+job)
	cmd.Stderr = os.Stderr
	out := testenv.Must(cmd.StdoutPipe())(t)
	testenv.OK(t, cmd.Start())
	return cmd, bufio.NewScanner(out)
}

// writeUntilStopped makes the file system refuse writes, by a limit on file sizes, while a
// store is open, and returns an error unless the store stops as it must.
func writeUntilStopped(path string) error {
	s, err := openDB(path, Options{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	for i := range 50 {
		if err := s.setFact(ctx, fmt.Sprint("before", i), "v"); err != nil {
			return err
		}
		fmt.Println("acknowledged", fmt.Sprint("before", i))
	}
	info, err := os.Stat(path + "-wal")
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 4096, Max: syscall.RLIM_INFINITY & (1<<63 - 1)}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprint("after", i)
			err := s.setFact(ctx, name, strings.Repeat("v", int(info.Size())))
			switch {
			case err == nil:
				fmt.Println("acknowledged", name)
			case errors.Is(err, database.ErrUnknownOutcome):
				fmt.Println("unknown", name)
			default:
				fmt.Println("refused", name)
			}
		})
	}
	wg.Wait()
	if err := s.setFact(ctx, "last", "v"); !errors.Is(err, ErrStopped) {
		return fmt.Errorf("a write after an I/O error: %w", err)
	}
	if err := s.Err(); !errors.Is(err, ErrStopped) {
		return fmt.Errorf("Err after an I/O error: %w", err)
	}
	if _, err := s.fact(ctx, "before0"); err != nil {
		return fmt.Errorf("a read after an I/O error: %w", err)
	}
	fmt.Println("stopped")
	return nil
}

// writeBeyondQuota makes the file system refuse writes while a store is open, as if a quota
// were exceeded, and then accept them again.
func writeBeyondQuota(path string) (err error) {
	ctx := context.Background()
	e, err := openSQLiteEngine(path, Options{})
	if err != nil {
		return err
	}
	db, err := newDB(ctx, e, nil)
	if err != nil {
		return err
	}
	s := testDB{db}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, c := range []*sqliteConn{e.writer.conn, e.checkpointer.conn} {
		c.classifier = sqliteClassifier(func() error { return &os.PathError{Op: "write", Path: path, Err: syscall.EDQUOT} })
	}
	if err := s.setFact(ctx, "before", "v"); err != nil {
		return err
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	info, err := os.Stat(path + "-wal")
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 4096, Max: was.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	for i := range 3 {
		err := s.setFact(ctx, fmt.Sprint("beyond", i), strings.Repeat("v", int(info.Size())))
		if !errors.Is(err, database.ErrNoSpace) {
			return fmt.Errorf("a write beyond the quota: %w", err)
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("a quota stopped the store: %w", err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	if err := s.setFact(ctx, "after", "v"); err != nil {
		return fmt.Errorf("a write when there is space again: %w", err)
	}
	fmt.Println("done")
	return nil
}

// TestQuota exceeds a quota in another process: writes then return ErrNoSpace, and refused writes
// have no effect.
func TestQuota(t *testing.T) {
	path := databasePath(t)
	cmd, lines := child(t, "quota", path)
	done := false
	for lines.Scan() {
		done = done || lines.Text() == "done"
	}
	if err := cmd.Wait(); err != nil || !done {
		t.Fatalf("done: %v, %v", done, err)
	}
	s := openAt(t, path, Options{})
	for name, want := range map[string]error{
		"before": nil, "after": nil,
		"beyond0": database.ErrNotFound, "beyond1": database.ErrNotFound, "beyond2": database.ErrNotFound,
	} {
		testenv.Is(t, testenv.Error(s.fact(t.Context(), name)), want, "fact %s", name)
	}
}

// TestStopsAfterIOError causes an I/O error in another process: the store refuses writes,
// continues to read, and works when it is opened again.
func TestStopsAfterIOError(t *testing.T) {
	path := databasePath(t)
	cmd, lines := child(t, "fail", path)
	facts := map[string]string{}
	stopped := false
	for lines.Scan() {
		outcome, name, _ := strings.Cut(lines.Text(), " ")
		if name != "" {
			facts[name] = outcome
		}
		stopped = stopped || outcome == "stopped"
	}
	testenv.OK(t, cmd.Wait())
	if !stopped {
		t.Fatal("the store did not stop")
	}
	s := openAt(t, path, Options{})
	for name, outcome := range facts {
		_, err := s.fact(t.Context(), name)
		switch {
		case outcome == "acknowledged" && err != nil:
			t.Errorf("the acknowledged %s: %v", name, err)
		case outcome == "refused" && !errors.Is(err, database.ErrNotFound):
			t.Errorf("the refused %s: %v", name, err)
		}
	}
	testenv.Is(t, s.setFact(t.Context(), "again", "v"), nil, "a write to the reopened store")
}
