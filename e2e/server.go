package e2e

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
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

	"sluice/test/testenv"
)

// Patience limits every wait for the process. It is far above any expected duration: only a hang
// reaches it.
const Patience = 60 * time.Second

// readyLine matches the line that serve prints on standard output when it is ready.
var readyLine = regexp.MustCompile(`^sluice (\S+) listening on (https?://\S+) \(data in (.+?)(?:; S3 on (https?://\S+))?\)$`)

// Server is a running sluice.
type Server struct {
	T       testing.TB
	Options Options
	Data    string // the data folder; if empty, the one that the server prints
	Command *exec.Cmd
	URL     string // as printed: scheme, host, port and base path
	Scheme  string // of url
	Host    string // host:port of url
	Base    string // path of url, empty without --base-path
	S3      string // base URL for S3's clients; empty if S3 is not served
	Key     string // API key that is sent with each request, if not empty
	Proxied bool   // reached through a proxy, which refuses some requests itself
	Client  *http.Client
	Log     *LogBuffer
	Exited  chan struct{} // closed when the process has ended
	exitErr error         // of Wait, once exited is closed
}

// Options configure how a server is started.
type Options struct {
	Addr    string        // 127.0.0.1:0 if empty
	Data    string        // a new folder if empty
	Certs   *Certificates // to serve TLS with; the clients then speak HTTP/2
	Flags   []string      // additional flags of serve
	Wrapper []string      // command line to run the binary under
	Tuning  Tuning        // a binary that is built for that has it
	Dirty   bool          // the process may end with errors or be killed
	Socket  *os.File      // a listener that the process inherits as file descriptor 3
	Damaged bool          // stored bytes may be damaged, so 500 is expected
}

// Start runs a server and stops it when the test ends. The server must then exit with 0 and must
// not have logged a panic.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.Data == "" {
		o.Data = filepath.Join(testenv.MemoryDir(t), "data")
	}
	s := &Server{T: t, Options: o, Data: o.Data}
	s.Launch()
	t.Cleanup(func() {
		if s.Running() {
			s.Stop()
		}
		s.CheckLog()
	})
	return s
}

// Launch starts the process and waits until it is ready.
func (s *Server) Launch() {
	s.T.Helper()
	line := slices.Concat(s.Options.Wrapper, []string{s.binary(), "serve", "--addr", s.Options.Addr, "--data", s.Data}, s.Options.Flags)
	if !slices.Contains(s.Options.Flags, "--s3-addr") {
		line = append(line, "--s3-addr", "off") // the default is one port for all servers
	}
	if s.Options.Certs != nil {
		line = append(line, s.Options.Certs.Flags()...)
	}
	s.Run(line)
}

// Tuning has fields of node.Tuning, by their names.
type Tuning map[string]any

// Tuned returns the options with a tuning.
func (o Options) Tuned(t Tuning) Options {
	o.Tuning = t
	return o
}

func (s *Server) binary() string {
	if len(s.Options.Tuning) > 0 {
		return testenv.Must(tunedSluice())(s.T)
	}
	return Sluice
}

// Run starts a command line and waits until the server is ready.
func (s *Server) Run(line []string) {
	s.T.Helper()
	s.Command = exec.Command(line[0], line[1:]...)
	s.Command.Dir = s.T.TempDir()
	if len(s.Options.Tuning) > 0 {
		tuning := testenv.Must(json.Marshal(s.Options.Tuning))(s.T)
		s.Command.Env = append(os.Environ(), "SLUICE_TEST_TUNING="+string(tuning))
	}
	s.Log = &LogBuffer{}
	s.Command.Stderr = s.Log
	if s.Options.Socket != nil {
		s.Command.ExtraFiles = []*os.File{s.Options.Socket}
	}
	stdout, err := s.Command.StdoutPipe()
	testenv.OK(s.T, err)
	testenv.OK(s.T, s.Command.Start())
	s.Exited = make(chan struct{})
	lines := make(chan string)
	go func(exited chan struct{}) {
		scanner := bufio.NewScanner(stdout)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
		close(lines)
		s.exitErr = errors.Join(scanner.Err(), s.Command.Wait())
		close(exited)
	}(s.Exited)

	s.T.Logf("started %s", strings.Join(line, " "))
	select {
	case first, ok := <-lines:
		if !ok {
			<-s.Exited
			s.T.Fatalf("serve ended before it was ready: %v\n%s", s.exitErr, s.Log)
		}
		s.ready(first)
	case <-time.After(Patience):
		s.Kill()
		s.T.Fatalf("serve was not ready within %v\n%s", Patience, s.Log)
	}
	go func() {
		for extra := range lines {
			s.T.Errorf("serve printed a second line on standard output: %q", extra)
		}
	}()
}

// ready parses the line that announces the address.
func (s *Server) ready(line string) {
	s.T.Helper()
	found := readyLine.FindStringSubmatch(line)
	if found == nil {
		s.Kill()
		s.T.Fatalf("ready line is %q, want the form %v", line, readyLine)
	}
	address, err := url.Parse(found[2])
	testenv.OK(s.T, err)
	s.URL, s.S3 = found[2], found[4]
	s.Scheme, s.Host, s.Base = address.Scheme, address.Host, address.Path
	s.Client = Client
	if s.Options.Certs != nil {
		s.Client = s.Options.Certs.Client(2)
	}
	if s.Data == "" {
		s.Data = found[3]
	}
	if found[3] != s.Data {
		s.T.Errorf("ready line names the data folder %q, want %q", found[3], s.Data)
	}
}

// Running reports whether the process is running.
func (s *Server) Running() bool {
	select {
	case <-s.Exited:
		return false
	default:
		return true
	}
}

// Signal sends a signal to the process.
func (s *Server) Signal(sig syscall.Signal) {
	s.T.Helper()
	if err := s.Command.Process.Signal(sig); err != nil {
		s.T.Fatalf("signal %v: %v", sig, err)
	}
}

// Wait waits until the process has ended and returns its exit code.
func (s *Server) Wait() int {
	s.T.Helper()
	select {
	case <-s.Exited:
	case <-time.After(Patience):
		s.Kill()
		s.T.Fatalf("the process did not end within %v\n%s", Patience, s.Log)
	}
	return s.Command.ProcessState.ExitCode()
}

// Exits waits until the process has ended, and fails the test unless it has with this exit code.
func (s *Server) Exits(code int) {
	s.T.Helper()
	if got := s.Wait(); got != code {
		s.T.Errorf("exit code %d, want %d\n%s", got, code, Tail(s.Log.String()))
	}
}

// Stop sends SIGTERM and waits until the server has ended. The exit code must be 0.
func (s *Server) Stop() {
	s.T.Helper()
	s.Signal(syscall.SIGTERM)
	if code := s.Wait(); code != 0 && !s.Options.Dirty {
		s.T.Errorf("exit code %d after SIGTERM, want 0\n%s", code, s.Log)
	}
}

// Kill kills the process, which simulates a crash.
func (s *Server) Kill() {
	s.T.Helper()
	if err := s.Command.Process.Kill(); err != nil && !s.gone() {
		s.T.Fatal(err)
	}
	<-s.Exited
}

// gone waits until the process has ended, and reports whether it has.
func (s *Server) gone() bool {
	select {
	case <-s.Exited:
		return true
	case <-time.After(Patience):
		return false
	}
}

// Restart starts the server again on the same data. The process must have ended.
func (s *Server) Restart() {
	s.T.Helper()
	<-s.Exited
	s.CheckLog()
	s.Launch()
}

// SettledLog returns the log when it has the lines of all requests that have ended.
func (s *Server) SettledLog() string {
	s.T.Helper()
	id := "settled-" + rand.Text()
	s.Do("GET", "/settled", nil, "X-Request-Id", id)
	s.Eventually("a request is not logged", func() bool { return strings.Contains(s.Log.String(), id) })
	return s.Log.String()
}

// CheckLog fails the test if the process logged a panic, a data race or an internal error.
func (s *Server) CheckLog() {
	s.T.Helper()
	text := s.Log.String()
	signs := []string{"panic:", "DATA RACE", "goroutine 1 ["}
	if !s.Options.Damaged {
		signs = append(signs, `status=500`, `"status":500`)
	}
	for _, bad := range signs {
		if strings.Contains(text, bad) {
			s.T.Errorf("the log contains %q:\n%s", bad, Tail(text))
			return
		}
	}
}

// Tail shortens a log to its last lines.
func Tail(text string) string {
	const keep = 8000
	if len(text) > keep {
		return "..." + text[len(text)-keep:]
	}
	return text
}

// LogBuffer keeps a process's standard error.
type LogBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write keeps p.
func (b *LogBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns everything that was written.
func (b *LogBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Result is an exited command's result.
type Result struct {
	Code   int
	Stdout string
	Stderr string
}

// SluiceRuns runs the binary until it exits.
func SluiceRuns(t testing.TB, args ...string) Result {
	t.Helper()
	return SluiceIn(t, t.TempDir(), args...)
}

// SluiceIn is SluiceRuns in a folder.
func SluiceIn(t testing.TB, dir string, args ...string) Result {
	t.Helper()
	command := exec.CommandContext(t.Context(), Sluice, args...)
	command.Dir = dir
	var stdout, stderr strings.Builder
	command.Stdout, command.Stderr = &stdout, &stderr
	timer := time.AfterFunc(Patience, func() { _ = command.Process.Kill() })
	defer timer.Stop()
	var exit *exec.ExitError
	if err := command.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return Result{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// Dial opens a TCP connection to the server and closes it when the test ends.
func (s *Server) Dial() *net.TCPConn {
	s.T.Helper()
	connection, err := net.Dial("tcp", s.Host)
	testenv.OK(s.T, err)
	s.T.Cleanup(func() {
		if err := connection.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.T.Error(err)
		}
	})
	testenv.OK(s.T, connection.SetDeadline(time.Now().Add(Patience)))
	return connection.(*net.TCPConn)
}

// Write sends text on a connection.
func (s *Server) Write(w io.Writer, text string) {
	s.T.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		s.T.Fatal(err)
	}
}

// Eventually waits for a condition that must hold soon after a response.
func (s *Server) Eventually(complaint string, done func() bool) {
	s.T.Helper()
	Await(s.T, complaint, done)
}

// Await polls until is returns true, or ends the test.
func Await(t testing.TB, not string, is func() bool) {
	t.Helper()
	await(t, is, func() string { return not })
}

// await polls until is returns true. The test ends with the complaint if that takes too long.
func await(t testing.TB, is func() bool, complaint func() string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(Patience); !is(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("after %v: %s", Patience, complaint())
		}
	}
}

// Files returns the paths and sizes of all files in the data folder.
func (s *Server) Files() map[string]int64 {
	s.T.Helper()
	sizes := map[string]int64{}
	eachFile(s.T, s.Data, func(path string, info fs.FileInfo) { sizes[path] = info.Size() })
	return sizes
}

// eachFile calls do for all files in a folder but those that are removed meanwhile.
func eachFile(t testing.TB, folder string, do func(path string, info fs.FileInfo)) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			do(path, info)
		}
		return err
	})
	testenv.OK(t, err)
}
