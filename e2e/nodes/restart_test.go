package nodes

import (
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// inherits makes a process believe that a socket unit has opened its port.
var inherits = []string{"sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@"`}

// startWithSocket starts a node on a port that stays open while the node restarts.
func startWithSocket(c *e2e.Cluster) {
	c.T.Helper()
	listener := e2e.ListenHere(c.T)
	socket, err := listener.File()
	testenv.OK(c.T, err)
	c.T.Cleanup(func() { _ = socket.Close() })
	o := c.Options
	o.Addr, o.Socket = listener.Addr().String(), socket
	o.Wrapper = append(o.Wrapper[:len(o.Wrapper):len(o.Wrapper)], inherits...)
	testenv.OK(c.T, listener.Close())
	c.Nodes = append(c.Nodes, e2e.Start(c.T, o))
}

// TestNginxIsFasterThanTheDrain checks that the documented nginx closes its idle connections before
// a draining node does, by the default of --drain-wait.
// Invariant 89.
func TestNginxIsFasterThanTheDrain(t *testing.T) {
	document, err := os.ReadFile("../../docs/operations.md")
	testenv.OK(t, err)
	wait := regexp.MustCompile(`(?m)^\| .--drain-wait. \| 0 \| (\d+) s \|$`).FindSubmatch(document)
	nginx := e2e.Deployed(t, "nginx.conf", nil)
	keeps := regexp.MustCompile(`(?m)^    keepalive_timeout (\S+);`).FindAllStringSubmatch(nginx, -1)
	upstreams := strings.Count(nginx, "\n    keepalive 64;")
	if wait == nil || len(keeps) == 0 || len(keeps) != upstreams {
		t.Fatalf("the default of --drain-wait is %q, and %d of %d upstreams have a keepalive_timeout", wait, len(keeps), upstreams)
	}
	drain, err := time.ParseDuration(string(wait[1]) + "s")
	testenv.OK(t, err)
	for _, keep := range keeps {
		if d, err := time.ParseDuration(keep[1]); err != nil || d+time.Second > drain {
			t.Errorf("nginx keeps idle connections for %s, %v, want a second less than the %s of --drain-wait", keep[1], err, drain)
		}
	}
}

// TestInheritedSockets checks that a server takes the sockets that its supervisor has opened
// instead of --addr, that a connection which arrives while no process runs waits for the next one,
// and that the server ignores another process's sockets.
func TestInheritedSockets(t *testing.T) {
	t.Parallel()
	listener := e2e.ListenHere(t)
	host := listener.Addr().String()
	socket, err := listener.File()
	testenv.OK(t, err)
	defer func() { _ = socket.Close() }()
	testenv.OK(t, listener.Close())
	s := e2e.Start(t, e2e.Options{Addr: "127.0.0.1:1", Socket: socket, Wrapper: inherits})
	if s.Host != host {
		t.Errorf("the server is at %s, want %s", s.Host, host)
	}
	s.Signal(syscall.SIGTERM)
	s.Exits(0)
	waiting, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatalf("between two processes: %v", err)
	}
	defer func() { _ = waiting.Close() }()
	s.Write(waiting.(*net.TCPConn), "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	s.Restart()
	if r := s.Answer(waiting.(*net.TCPConn), "GET"); r.Status != 200 {
		t.Errorf("a request that waited for the start: %v", r)
	}

	other := e2e.Start(t, e2e.Options{Socket: socket, Wrapper: []string{"env", "LISTEN_PID=1", "LISTEN_FDS=1"}})
	if other.Host == host {
		t.Error("a server takes the sockets of another process")
	}
}
