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
	"syscall"
	"testing"
	"time"
)

// The credentials of every S3 server that S3 starts.
const (
	S3AccessKey = "testaccess"
	S3SecretKey = "testsecret-canary"
)

// S3Options configures how an S3 server listens. The zero value is plain HTTP with the bucket in
// the path.
type S3Options struct {
	// CertFile and KeyFile enable TLS.
	CertFile, KeyFile string
	// VirtualDomain, if not empty, makes the bucket available under the host name
	// BUCKET.VirtualDomain.
	VirtualDomain string
	// Versions makes the server keep the versions of objects in a bucket that enables versioning.
	Versions bool
}

// S3Server is a versitygw on a loopback address that keeps its objects in a temporary folder. It
// does not sync them to disk, so objects survive a kill, but it cannot show which ones survive a
// power cut.
type S3Server struct {
	Addr   string // host:port
	Bucket string

	t       testing.TB
	program string
	dir     string
	past    string // the folder with the objects' earlier versions; "": none are kept
	opt     S3Options
	process *os.Process   // nil while the server is stopped
	ended   chan struct{} // closed when the process has ended
}

// S3 starts an S3 server with one empty bucket. The server is stopped when the test ends. It calls
// Require for VersityGW.
func S3(t testing.TB, opt S3Options) *S3Server {
	t.Helper()
	Require(t, VersityGW)
	program, err := VersityGWPath()
	if err != nil {
		t.Fatal(err)
	}
	s := &S3Server{Addr: ReserveAddress(t), Bucket: "sluice-test", t: t, program: program, dir: t.TempDir(), opt: opt}
	if opt.Versions {
		s.past = t.TempDir()
	}
	// versitygw stores a bucket as a folder. With a single account it checks no owner.
	if err := os.Mkdir(filepath.Join(s.dir, s.Bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// Folder returns the folder in which the server stores the bucket's objects under their keys.
func (s *S3Server) Folder() string { return filepath.Join(s.dir, s.Bucket) }

// startTimeout limits the wait for a server to listen.
const startTimeout = 30 * time.Second

// Start starts the server with the address and data that it had before Stop. It returns when the
// server listens, and fails the test if it does not.
func (s *S3Server) Start() {
	s.t.Helper()
	args := []string{"--port", s.Addr, "--keep-alive"}
	if s.opt.CertFile != "" {
		args = append(args, "--cert", s.opt.CertFile, "--key", s.opt.KeyFile)
	}
	if s.opt.VirtualDomain != "" {
		args = append(args, "--virtual-domain", s.opt.VirtualDomain)
	}
	args = append(args, "posix")
	if s.past != "" {
		args = append(args, "--versioning-dir", s.past)
	}
	command := exec.Command(s.program, append(args, s.dir)...)
	// The environment, unlike the arguments, is not visible in process lists.
	command.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+S3AccessKey, "ROOT_SECRET_KEY="+S3SecretKey)
	command.SysProcAttr = childAttributes(nil, syscall.SIGKILL)
	s.process = nil
	s.ended = make(chan struct{})
	started, listens := make(chan *os.Process, 1), make(chan error, 2) // room for both "listening" and "ended"
	go func() {
		defer close(s.ended)
		// The kernel sends the parent-death signal when the starting thread ends.
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
	case <-time.After(startTimeout):
		err = fmt.Errorf("it did not listen within %s", startTimeout)
	}
	if err == nil {
		err = s.awaitListener(listens)
	}
	if err != nil {
		s.Stop()
		s.t.Fatalf("versitygw: %v", err)
	}
}

// awaitListener waits until the server accepts connections: it reports that it listens shortly
// before it does.
func (s *S3Server) awaitListener(ended <-chan error) error {
	for deadline := time.Now().Add(startTimeout); ; {
		c, err := net.Dial("tcp", s.Addr)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(deadline) {
			return err
		}
		select {
		case err := <-ended:
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// run runs the server until it ends and returns the reason. It sends nil to listens when the server
// listens.
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
		if output.Len() < 4<<10 { // after that there is one line per request
			fmt.Fprintln(&output, lines.Text())
		}
		if strings.Contains(lines.Text(), "listening on") {
			listens <- nil
		}
	}
	return errors.Join(errors.New("it ended"), command.Wait(), errors.New(output.String()))
}

// Stop kills the server and keeps its data. It does nothing if the server is stopped.
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
