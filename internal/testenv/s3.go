package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// VersityGW is an S3 server over a folder, of the version that setup.sh pins.
const VersityGW Thing = "versitygw"

const versityGWVersion = "v1.8.0"

// VersityGWPath finds the program where setup.sh installs it.
func VersityGWPath() (string, error) {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(home, ".cache")
	}
	path := filepath.Join(cache, "sluice-tools", "versitygw-"+versityGWVersion, "versitygw")
	if _, err := exec.LookPath(path); err != nil {
		return "", fmt.Errorf("versitygw is not installed (internal/testenv/setup.sh does it): %w", err)
	}
	return path, nil
}

// The keys that every S3 server of the tests takes.
const (
	S3AccessKey = "testaccess"
	S3SecretKey = "testsecret-canary"
)

// S3Options choose how an S3 server listens. The zero value is plain HTTP with
// the bucket in the path.
type S3Options struct {
	// CertFile and KeyFile make it listen with TLS.
	CertFile, KeyFile string
	// VirtualDomain makes it take BUCKET.VirtualDomain as a host name for the
	// bucket.
	VirtualDomain string
}

// S3Server is a versitygw on a loopback address, over a folder of the test. It
// syncs nothing to disk: it can show what a killed server keeps, not what a
// power cut does.
type S3Server struct {
	Addr   string // host:port
	Bucket string

	t       testing.TB
	program string
	dir     string
	opt     S3Options
	process *os.Process   // nil while stopped
	ended   chan struct{} // closed when the process is gone
}

// S3 starts an S3 server with one empty bucket. It ends with the test.
func S3(t testing.TB, opt S3Options) *S3Server {
	t.Helper()
	Require(t, VersityGW)
	program, err := VersityGWPath()
	if err != nil {
		t.Fatal(err)
	}
	s := &S3Server{Bucket: "sluice-test", t: t, program: program, dir: t.TempDir(), opt: opt}
	// The bucket is a folder; versitygw has no owner to check with one account.
	if err := os.Mkdir(filepath.Join(s.dir, s.Bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Addr, err = freeAddr()
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// Folder is where the server keeps the objects of the bucket, by their names.
func (s *S3Server) Folder() string { return filepath.Join(s.dir, s.Bucket) }

// freeAddr is a loopback address whose port was free a moment ago.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// startTime bounds the wait for a server to listen.
const startTime = 30 * time.Second

// Start starts the server where Stop left it, on the same address and data. It
// returns when the server listens, and fails the test when it does not.
func (s *S3Server) Start() {
	s.t.Helper()
	args := []string{"--port", s.Addr, "--keep-alive"}
	if s.opt.CertFile != "" {
		args = append(args, "--cert", s.opt.CertFile, "--key", s.opt.KeyFile)
	}
	if s.opt.VirtualDomain != "" {
		args = append(args, "--virtual-domain", s.opt.VirtualDomain)
	}
	command := exec.Command(s.program, append(args, "posix", s.dir)...)
	// Keys go by the environment, so that no process list shows them.
	command.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+S3AccessKey, "ROOT_SECRET_KEY="+S3SecretKey)
	command.SysProcAttr = dieWithParent()
	s.process = nil
	s.ended = make(chan struct{})
	started, listens := make(chan *os.Process, 1), make(chan error, 2) // that it listens, and that it ended
	go func() {
		defer close(s.ended)
		// The kernel takes the end of the starting thread for that of the
		// parent, so this one stays with the server.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		listens <- s.run(command, started, listens)
	}()
	select {
	case s.process = <-started:
	case err := <-listens:
		s.t.Fatalf("versitygw: %v", err)
	}
	var err error
	select {
	case err = <-listens:
	case <-time.After(startTime):
		err = fmt.Errorf("it did not listen within %s", startTime)
	}
	if err != nil {
		s.Stop()
		s.t.Fatalf("versitygw: %v", err)
	}
}

// run runs the server to its end. It sends nil when the server listens, and
// returns why it ended.
func (s *S3Server) run(command *exec.Cmd, started chan<- *os.Process, listens chan<- error) error {
	stdout, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		return err
	}
	started <- command.Process
	var output strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if output.Len() < 4<<10 { // what follows is a line for each request
			fmt.Fprintln(&output, lines.Text())
		}
		if strings.Contains(lines.Text(), "listening on") {
			listens <- nil
		}
	}
	return errors.Join(errors.New("it ended"), command.Wait(), errors.New(output.String()))
}

// Stop kills the server. Its data stays. Stopping it again does nothing.
func (s *S3Server) Stop() {
	if s.process == nil {
		return
	}
	if err := s.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Errorf("killing versitygw: %v", err)
	}
	<-s.ended
	s.process = nil
}
