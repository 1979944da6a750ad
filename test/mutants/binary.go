package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// binary is a package's test binary.
type binary struct {
	name string
	dir  string // the package's folder, where its tests expect to run
	// temp is where each process has a temporary folder of its own, which a test that ends early
	// leaves full. If it is empty, processes use the system's, as with go test.
	temp string
	// memory is the address space that its processes may have, in KiB. It is not limited if 0.
	memory int
	// spare is time that its processes have in any case. It allows for a busy machine.
	spare time.Duration
}

// exec runs the binary with variables added to the environment. A limit of 0 is ten minutes. It
// returns an error that wraps context.DeadlineExceeded if the binary had to be killed.
func (b binary) exec(ctx context.Context, limit time.Duration, env []string, args ...string) (out []byte, err error) {
	if b.temp != "" {
		temp, terr := tempDir(b.temp)
		if terr != nil {
			return nil, terr
		}
		defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
		env = append(env, "TMPDIR="+temp)
	}
	if limit == 0 {
		limit = 10 * time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	script := `exec "$0" "$@"`
	if b.memory > 0 {
		script = fmt.Sprintf("ulimit -v %d && %s", b.memory, script)
	}
	c := exec.CommandContext(ctx, "sh", append([]string{"-c", script, b.name, "-test.timeout=" + limit.String()}, args...)...)
	c.Dir, c.Env = b.dir, append(os.Environ(), env...)
	c.WaitDelay = 10 * time.Second // a process that the test started may hold the output open
	out, err = c.CombinedOutput()
	if err != nil && ctx.Err() != nil {
		err = errors.Join(err, ctx.Err())
	}
	return out, err
}

// verdictOf returns the verdict of tests that ended with this output and error, or an error if they
// could not be run.
func verdictOf(ctx context.Context, out []byte, err error) (verdict, error) {
	switch failed := (*exec.ExitError)(nil); {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return survived, nil
	case errors.Is(err, context.DeadlineExceeded) || bytes.Contains(out, []byte("panic: test timed out after")):
		return timedOut, nil
	case errors.As(err, &failed) && ctx.Err() == nil:
		return detected, nil
	default:
		return "", fmt.Errorf("%w\n%s", err, out)
	}
}

// tempDir makes a folder that other users may enter: tests start PostgreSQL as another user.
func tempDir(parent string) (string, error) {
	name, err := os.MkdirTemp(parent, "mutants-")
	if err != nil {
		return "", err
	}
	return name, os.Chmod(name, 0o755)
}
