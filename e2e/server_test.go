package e2e

import (
	"bufio"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience limits every wait for the process. It is far above any expected duration: only a hang
// reaches it.
const patience = 60 * time.Second

// readyLine matches the line that serve prints on standard output when it is ready.
var readyLine = regexp.MustCompile(`^sluice (\S+) listening on (https?://\S+) \(data in (.+)\)$`)

// server is a running sluice.
type server struct {
	t       testing.TB
	options options
	data    string // the data folder; if empty, the one that the server prints
	command *exec.Cmd
	url     string // as printed: scheme, host, port and base path
	scheme  string // of url
	host    string // host:port of url
	base    string // path of url, empty without --base-path
	key     string // API key that is sent with each request, if not empty
	proxied bool   // reached through a proxy, which refuses some requests itself
	version string // as printed
	client  *http.Client
	log     *logBuffer
	exited  chan struct{} // closed when the process has ended
	exitErr error         // of Wait, once exited is closed
}

// options configure how a server is started.
type options struct {
	addr    string        // 127.0.0.1:0 if empty
	data    string        // a new folder if empty
	certs   *certificates // to serve TLS with; the clients then speak HTTP/2
	flags   []string      // additional flags of serve
	wrapper []string      // command line to run the binary under
	dirty   bool          // the process may end with errors or be killed
	socket  *os.File      // a listener that the process inherits as file descriptor 3
	damaged bool          // stored bytes may be damaged, so 500 is expected
}

// start runs a server and stops it when the test ends. The server must then exit with 0 and must
// not have logged a panic.
func start(t testing.TB, o options) *server {
	t.Helper()
	if o.addr == "" {
		o.addr = "127.0.0.1:0"
	}
	if o.data == "" {
		o.data = filepath.Join(t.TempDir(), "data")
	}
	s := &server{t: t, options: o, data: o.data}
	s.launch()
	t.Cleanup(func() {
		if s.running() {
			s.stop()
		}
		s.checkLog()
	})
	return s
}

// launch starts the process and waits until it is ready.
func (s *server) launch() {
	s.t.Helper()
	line := slices.Concat(s.options.wrapper, []string{sluice, "serve", "--addr", s.options.addr, "--data", s.data}, s.options.flags)
	if s.options.certs != nil {
		line = append(line, s.options.certs.flags()...)
	}
	s.run(line)
}

// run starts a command line and waits until the server is ready.
func (s *server) run(line []string) {
	s.t.Helper()
	s.command = exec.Command(line[0], line[1:]...)
	s.command.Dir = s.t.TempDir()
	s.log = &logBuffer{}
	s.command.Stderr = s.log
	if s.options.socket != nil {
		s.command.ExtraFiles = []*os.File{s.options.socket}
	}
	stdout, err := s.command.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.exited = make(chan struct{})
	lines := make(chan string)
	go func(exited chan struct{}) {
		scanner := bufio.NewScanner(stdout)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
		close(lines)
		s.exitErr = errors.Join(scanner.Err(), s.command.Wait())
		close(exited)
	}(s.exited)

	s.t.Logf("started %s", strings.Join(line, " "))
	select {
	case first, ok := <-lines:
		if !ok {
			<-s.exited
			s.t.Fatalf("serve ended before it was ready: %v\n%s", s.exitErr, s.log)
		}
		s.ready(first)
	case <-time.After(patience):
		s.kill()
		s.t.Fatalf("serve was not ready within %v\n%s", patience, s.log)
	}
	go func() {
		for extra := range lines {
			s.t.Errorf("serve printed a second line on standard output: %q", extra)
		}
	}()
}

// ready parses the line that announces the address.
func (s *server) ready(line string) {
	s.t.Helper()
	found := readyLine.FindStringSubmatch(line)
	if found == nil {
		s.kill()
		s.t.Fatalf("ready line is %q, want the form %v", line, readyLine)
	}
	address, err := url.Parse(found[2])
	if err != nil {
		s.t.Fatal(err)
	}
	s.version, s.url = found[1], found[2]
	s.scheme, s.host, s.base = address.Scheme, address.Host, address.Path
	s.client = client
	if s.options.certs != nil {
		s.client = s.options.certs.client(2)
	}
	if s.data == "" {
		s.data = found[3]
	}
	if found[3] != s.data {
		s.t.Errorf("ready line names the data folder %q, want %q", found[3], s.data)
	}
}

// running reports whether the process is running.
func (s *server) running() bool {
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// signal sends a signal to the process.
func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.command.Process.Signal(sig); err != nil {
		s.t.Fatalf("signal %v: %v", sig, err)
	}
}

// wait waits until the process has ended and returns its exit code.
func (s *server) wait() int {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.kill()
		s.t.Fatalf("the process did not end within %v\n%s", patience, s.log)
	}
	return s.command.ProcessState.ExitCode()
}

// stop sends SIGTERM and waits until the server has ended. The exit code must be 0.
func (s *server) stop() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	if code := s.wait(); code != 0 && !s.options.dirty {
		s.t.Errorf("exit code %d after SIGTERM, want 0\n%s", code, s.log)
	}
}

// kill kills the process, which simulates a crash.
func (s *server) kill() {
	s.t.Helper()
	if err := s.command.Process.Kill(); err != nil && !s.gone() {
		s.t.Fatal(err)
	}
	<-s.exited
}

// gone waits until the process has ended, and reports whether it has.
func (s *server) gone() bool {
	select {
	case <-s.exited:
		return true
	case <-time.After(patience):
		return false
	}
}

// restart starts the server again on the same data. The process must have ended.
func (s *server) restart() {
	s.t.Helper()
	<-s.exited
	s.checkLog()
	s.launch()
}

// settledLog returns the log when it has the lines of all requests that have ended.
func (s *server) settledLog() string {
	s.t.Helper()
	id := "settled-" + rand.Text()
	s.do("GET", "/settled", nil, "X-Request-Id", id)
	s.eventually("a request is not logged", func() bool { return strings.Contains(s.log.String(), id) })
	return s.log.String()
}

// checkLog fails the test if the process logged a panic, a data race or an internal error.
func (s *server) checkLog() {
	s.t.Helper()
	text := s.log.String()
	signs := []string{"panic:", "DATA RACE", "goroutine 1 ["}
	if !s.options.damaged {
		signs = append(signs, `status=500`, `"status":500`)
	}
	for _, bad := range signs {
		if strings.Contains(text, bad) {
			s.t.Errorf("the log contains %q:\n%s", bad, tail(text))
			return
		}
	}
}

// tail shortens a log to its last lines.
func tail(text string) string {
	const keep = 8000
	if len(text) > keep {
		return "..." + text[len(text)-keep:]
	}
	return text
}

// logBuffer keeps what a process writes on standard error.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write keeps p.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns everything that was written.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// result is what a command has left when it exited.
type result struct {
	code   int
	stdout string
	stderr string
}

// sluiceRuns runs the binary until it exits.
func sluiceRuns(t testing.TB, args ...string) result {
	t.Helper()
	return sluiceIn(t, t.TempDir(), args...)
}

// sluiceIn is sluiceRuns in a folder.
func sluiceIn(t testing.TB, dir string, args ...string) result {
	t.Helper()
	command := exec.CommandContext(t.Context(), sluice, args...)
	command.Dir = dir
	var stdout, stderr strings.Builder
	command.Stdout, command.Stderr = &stdout, &stderr
	timer := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
	defer timer.Stop()
	var exit *exec.ExitError
	if err := command.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// dial opens a TCP connection to the server and closes it when the test ends.
func (s *server) dial() *net.TCPConn {
	s.t.Helper()
	connection, err := net.Dial("tcp", s.host)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := connection.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.t.Error(err)
		}
	})
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	return connection.(*net.TCPConn)
}

// write sends text on a connection.
func (s *server) write(w io.Writer, text string) {
	s.t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		s.t.Fatal(err)
	}
}
