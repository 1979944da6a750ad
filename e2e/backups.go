package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/test/testenv"
)

// Running is a command that runs, or has ended.
type Running struct {
	t       testing.TB
	command *exec.Cmd
	out     strings.Builder // of standard output
	log     *LogBuffer      // of standard error
	ended   chan struct{}   // closed when the command has ended
}

// StartBackup starts sluice backup with these arguments under a wrapper, as Options has it.
func StartBackup(t testing.TB, wrapper []string, args ...string) *Running {
	t.Helper()
	return start(t, slices.Concat(wrapper, []string{Sluice, "backup"}, args))
}

func start(t testing.TB, line []string) *Running {
	t.Helper()
	b := &Running{t: t, command: exec.CommandContext(t.Context(), line[0], line[1:]...), log: &LogBuffer{}, ended: make(chan struct{})}
	b.command.Stdout, b.command.Stderr = &b.out, b.log
	b.command.Dir = t.TempDir()
	testenv.OK(t, b.command.Start())
	go func() {
		defer close(b.ended)
		var exit *exec.ExitError
		if err := b.command.Wait(); err != nil && !errors.As(err, &exit) && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	return b
}

// Log returns the command's standard error until now.
func (b *Running) Log() string { return b.log.String() }

// Runs reports whether the command runs.
func (b *Running) Runs() bool { return !closed(b.ended) }

// Kill kills the command, and reports whether that ended it.
func (b *Running) Kill() bool {
	b.t.Helper()
	running := b.command.Process.Kill() == nil
	<-b.ended
	return running && b.command.ProcessState.ExitCode() == -1
}

// Wait waits until the command has ended.
func (b *Running) Wait() Result {
	b.t.Helper()
	select {
	case <-b.ended:
	case <-time.After(Patience):
		b.Kill()
		b.t.Fatalf("the command did not end within %v\n%s", Patience, b.log)
	}
	return Result{b.command.ProcessState.ExitCode(), b.out.String(), b.log.String()}
}

// StoredObjects counts the objects in a folder with backups.
func StoredObjects(t testing.TB, place string) (n int) {
	t.Helper()
	if found, err := filepath.Glob(place); len(found) == 0 {
		testenv.OK(t, err)
		return 0
	}
	eachFile(t, place, func(path string, _ fs.FileInfo) {
		if filepath.Dir(path) != place && !strings.HasPrefix(filepath.Base(path), ".") {
			n++
		}
	})
	return n
}

// Checked is the output of sluice check --json.
type Checked struct {
	Damaged   bool  `json:"damaged"`
	Objects   int64 `json:"objects"`
	Bytes     int64 `json:"bytes"`
	BytesRead int64 `json:"bytesRead"`
	Orphans   int64 `json:"orphans"`
}

// CheckClean runs sluice check --read-bytes and check --books on an instance, which the flags name.
// They must find nothing.
func CheckClean(t testing.TB, wrapper []string, places ...string) Checked {
	t.Helper()
	var found Checked
	r := Wrapped(t, wrapper, append([]string{"check", "--read-bytes", "--json"}, places...)...)
	if r.Code != 0 || json.Unmarshal([]byte(r.Stdout), &found) != nil || found.Damaged || found.BytesRead != found.Bytes {
		t.Errorf("check: %+v", r)
	}
	meta := []string{"check", "--books"}
	if at := slices.Index(places, "--bytes"); at >= 0 {
		places = slices.Delete(slices.Clone(places), at, at+2)
	}
	if r := Wrapped(t, wrapper, append(meta, places...)...); r.Code != 0 {
		t.Errorf("audit: %+v", r)
	}
	return found
}

// Restored restores a place's newest backup to the flags' location. The command must succeed.
func Restored(t testing.TB, wrapper []string, place string, to ...string) {
	t.Helper()
	if r := Wrapped(t, wrapper, append([]string{"restore", place}, to...)...); r.Code != 0 || !strings.Contains(r.Stdout, "Restored the backup ") {
		t.Fatalf("restore: %+v", r)
	}
}

// Wrapped is SluiceRuns under a wrapper.
func Wrapped(t testing.TB, wrapper []string, args ...string) Result {
	t.Helper()
	line := slices.Concat(wrapper, []string{Sluice}, args)
	return start(t, line).Wait()
}
