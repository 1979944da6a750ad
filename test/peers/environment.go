//go:build linux

package main

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sluice/test/testenv"
)

type options struct {
	rounds int
	time   time.Duration
	sluice string
	dir    string
	write  bool
	groups []string
	rows   *regexp.Regexp
}

// environment has the programs, the folder for their data, and the processes that run.
type environment struct {
	options

	root      string // the module's folder
	dir       string // of everything
	work      string // folder for a group's data
	programs  map[string]string
	missing   map[string]error
	processes []*process
	closers   []func() error // are called after the processes have ended
	authority *x509.CertPool // for the servers' certificate
}

// findPrograms finds the programs and builds sluice.
func (e *environment) findPrograms() (err error) {
	if e.sluice == "" || e.write {
		if e.root, err = testenv.Root(); err != nil {
			return err
		}
	}
	if e.sluice == "" {
		if e.sluice, err = testenv.BuildSluice(e.dir, "tuned"); err != nil {
			return err
		}
	}
	e.programs, e.missing = map[string]string{}, map[string]error{}
	find := map[string]func() (string, error){
		"nginx":     testenv.NginxPath,
		"versitygw": testenv.VersityGWPath,
		"postgres":  testenv.PostgresBin,
	}
	for _, name := range []string{"wrk", "redis-server", "redis-benchmark", "webdis"} {
		find[name] = func() (string, error) { return exec.LookPath(name) }
	}
	for name, path := range find {
		if e.programs[name], err = path(); err != nil {
			e.missing[name] = fmt.Errorf("%s is not installed (test/peers/setup.sh installs it): %w", name, err)
		}
	}
	return nil
}

// need returns an error if a program is missing.
func (e *environment) need(names ...string) error {
	for _, name := range names {
		if err := e.missing[name]; err != nil {
			return err
		}
	}
	return nil
}

// folder makes a folder for data.
func (e *environment) folder(name string) (string, error) {
	dir := filepath.Join(e.work, name)
	return dir, os.MkdirAll(dir, 0o700)
}

// process is a server that runs.
type process struct {
	command *exec.Cmd
	ended   chan struct{} // closed when it has ended
	err     error         // of its end, once ended is closed
	stderr  string        // a file with its output
	behind  *process      // the server that it asks, and that is charged with it; nil: none
}

// startTime limits how long a server starts.
const startTime = time.Minute

// start starts a server. It is stopped by stopAll.
func (e *environment) start(command *exec.Cmd) (*process, error) {
	name := filepath.Base(command.Path)
	log, err := os.CreateTemp(e.work, name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	if command.Stderr == nil {
		command.Stderr = log
	}
	if command.Stdout == nil {
		command.Stdout = log
	}
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &process{command: command, ended: make(chan struct{}), stderr: log.Name()}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel sends the parent-death signal when the starting thread ends
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			p.err = command.Wait()
		}
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	e.processes = append(e.processes, p)
	return p, nil
}

// awaitPort waits until a server accepts connections.
func (p *process) awaitPort(ctx context.Context, address string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(startTime)
	for {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-tick.C:
		case <-p.ended:
			return p.failure()
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return fmt.Errorf("%s did not listen on %s within %s", p.command.Path, address, startTime)
		}
	}
}

// failure returns why a process has ended by itself.
func (p *process) failure() error {
	text, err := os.ReadFile(p.stderr)
	return errors.Join(fmt.Errorf("%s ended: %w: %s", p.command.Path, p.err, text), err)
}

// stop ends a process with a signal, and kills it after a minute.
func (p *process) stop(signal syscall.Signal) {
	_ = p.command.Process.Signal(signal) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(startTime):
		_ = p.command.Process.Kill() // it may have ended
		<-p.ended
	}
}

// begin makes the folder for a group's data.
func (e *environment) begin(group string) error {
	e.work = filepath.Join(e.dir, group)
	return os.Mkdir(e.work, 0o711) // servers with users of their own pass through it
}

// end ends all processes, the last one first, and removes the group's data.
func (e *environment) end() (err error) {
	for _, p := range slices.Backward(e.processes) {
		p.stop(syscall.SIGTERM)
	}
	for _, stop := range slices.Backward(e.closers) {
		err = errors.Join(err, stop())
	}
	e.processes, e.closers = nil, nil
	return errors.Join(err, os.RemoveAll(e.work))
}

// requireSpace returns an error unless so much is free for data.
func (e *environment) requireSpace(gib uint64) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(e.work, &fs); err != nil {
		return err
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < gib<<30 {
		return fmt.Errorf("%d GiB of free space are needed, and there are %.1f: name another folder with -dir", gib, float64(free)/(1<<30))
	}
	return nil
}

// ticksPerSecond is the unit of times in /proc on Linux.
const ticksPerSecond = 100

// cpu returns how much processor time a process, its children and the server behind it have taken.
func (p *process) cpu() (time.Duration, error) {
	own, err := cpuOf(p.command.Process.Pid)
	if err != nil || p.behind == nil {
		return own, err
	}
	behind, err := p.behind.cpu()
	return own + behind, err
}

func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), ") ") // after the name, which may contain spaces
	fields := strings.Fields(after)
	if len(fields) < 15 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	total := 0
	for _, field := range fields[11:15] { // utime and stime, and the same of children that have ended
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		total += n
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, err
	}
	sum := time.Duration(total) * time.Second / ticksPerSecond
	for _, child := range strings.Fields(string(children)) {
		n, err := strconv.Atoi(child)
		if err != nil {
			return 0, err
		}
		if t, err := cpuOf(n); err == nil { // it may have ended
			sum += t
		}
	}
	return sum, nil
}

// charged runs a load, which returns its number of operations. It returns a server's processor time
// for each of them, in microseconds.
func (p *process) charged(load func() (operations float64, err error)) (us float64, err error) {
	before, err := p.cpu()
	if err != nil {
		return 0, err
	}
	n, err := load()
	if err != nil {
		return 0, err
	}
	after, err := p.cpu()
	if err != nil || n == 0 {
		return 0, errors.Join(err, errorIf(n == 0, "no operation has ended"))
	}
	return float64((after-before)/time.Microsecond) / n, nil
}

func errorIf(is bool, text string) error {
	if is {
		return errors.New(text)
	}
	return nil
}

// freeAddress returns a loopback address with a port that was free.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func joinCleanup(err, cleanup error) error { return errors.Join(err, cleanup) }

var readyLine = regexp.MustCompile(`listening on (https?://\S+)`)

type sluiceServer struct {
	*process

	url  string
	data string
}

// startSluice starts a server over a folder, which may exist. Its log is discarded.
func (e *environment) startSluice(ctx context.Context, name string, flags ...string) (*sluiceServer, error) {
	return e.startSluiceWith(ctx, name, nil, flags...)
}

// startSluiceWith is startSluice with additional environment variables.
func (e *environment) startSluiceWith(ctx context.Context, name string, variables []string, flags ...string) (*sluiceServer, error) {
	s := &sluiceServer{data: filepath.Join(e.work, name)}
	command := exec.Command(e.sluice, append([]string{"serve", "--addr", "127.0.0.1:0", "--data", s.data}, flags...)...)
	command.Env = append(os.Environ(), variables...)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }() // the process has its own descriptor
	command.Stderr = null
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	command.Stdout = w
	s.process, err = e.start(command)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	s.url, err = readReady(ctx, r)
	return s, err
}

// readReady reads the line with the URL at which a server listens.
func readReady(ctx context.Context, r io.ReadCloser) (url string, err error) {
	stop := context.AfterFunc(ctx, func() { _ = r.Close() })
	defer stop()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if found := readyLine.FindStringSubmatch(lines.Text()); found != nil {
			return found[1], nil
		}
	}
	return "", fmt.Errorf("sluice ended before it listened: %w", errors.Join(lines.Err(), r.Close(), ctx.Err()))
}
