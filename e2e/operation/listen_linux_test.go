package operation

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestListensOnLoopbackOnly checks that localhost means both loopback addresses and no other, and
// that the server listens on a given address only.
func TestListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	both := []string{"127.0.0.1"}
	if probe, err := net.Listen("tcp", "[::1]:0"); err == nil {
		both = append(both, "::1")
		testenv.OK(t, probe.Close())
	}
	tests := []struct {
		addr string
		want []string
	}{
		{"localhost:0", both},
		{"127.0.0.1:0", both[:1]},
		{"[::1]:0", both[1:]},
	}
	for _, test := range tests {
		if len(test.want) == 0 {
			continue // this machine has no IPv6
		}
		s := e2e.Start(t, e2e.Options{Addr: test.addr})
		_, port, err := net.SplitHostPort(s.Host)
		testenv.OK(t, err)
		if wantHost, _, _ := net.SplitHostPort(test.addr); !strings.HasPrefix(s.URL, "http://"+strings.TrimSuffix(test.addr, "0")) {
			t.Errorf("--addr %s is announced as %s, want the host %s", test.addr, s.URL, wantHost)
		}
		if got := listens(t, s.Command.Process.Pid, port); !slices.Equal(got, test.want) {
			t.Errorf("--addr %s listens on %v, want %v", test.addr, got, test.want)
		}
		for _, host := range test.want {
			connection, err := net.Dial("tcp", net.JoinHostPort(host, port))
			if err != nil {
				t.Errorf("--addr %s: %v", test.addr, err)
				continue
			}
			s.Write(connection, "GET /v1/info HTTP/1.1\r\nHost: "+net.JoinHostPort(host, port)+"\r\n\r\n")
			if r := s.Answer(connection, "GET"); r.Status != 200 {
				t.Errorf("--addr %s, request to %s: %v", test.addr, host, r)
			}
			if err := connection.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// listens returns the addresses on which a process listens. All must have this port.
func listens(t *testing.T, pid int, port string) []string {
	t.Helper()
	mine := socketsOf(t, pid)
	var hosts []string
	for _, family := range []string{"tcp", "tcp6"} {
		for _, entry := range listeners(t, fmt.Sprintf("/proc/%d/net/%s", pid, family)) {
			if !mine[entry.inode] {
				continue
			}
			host, got, err := net.SplitHostPort(entry.address)
			if err != nil || got != port {
				t.Errorf("the process listens on %s (%v), want port %s", entry.address, err, port)
			}
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// socketsOf returns the inode of each of a process's sockets.
func socketsOf(t *testing.T, pid int) map[string]bool {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	testenv.OK(t, err)
	inodes := map[string]bool{}
	for _, link := range links {
		target, err := os.Readlink(link)
		if os.IsNotExist(err) {
			continue // closed in the meantime
		}
		testenv.OK(t, err)
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return inodes
}

// listener is a listening socket.
type listener struct{ address, inode string }

// listeners reads the listening sockets in a /proc/net/tcp table.
func listeners(t *testing.T, table string) []listener {
	t.Helper()
	file, err := os.Open(table)
	testenv.OK(t, err)
	defer func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}()
	var found []listener
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		const listening = "0A"
		if len(fields) < 10 || fields[3] != listening {
			continue
		}
		found = append(found, listener{socketAddress(t, fields[1]), fields[9]})
	}
	testenv.OK(t, lines.Err())
	return found
}

// socketAddress parses an address in the kernel's form: 32-bit words in native byte order, in hex,
// then the port.
func socketAddress(t *testing.T, field string) string {
	t.Helper()
	words, portHex, ok := strings.Cut(field, ":")
	var port int
	if _, err := fmt.Sscanf(portHex, "%X", &port); err != nil || !ok {
		t.Fatalf("address %q: %v", field, err)
	}
	var ip net.IP
	for ; len(words) >= 8; words = words[8:] {
		var word uint32
		if _, err := fmt.Sscanf(words[:8], "%X", &word); err != nil {
			t.Fatalf("address %q: %v", field, err)
		}
		ip = append(ip, byte(word), byte(word>>8), byte(word>>16), byte(word>>24))
	}
	return net.JoinHostPort(ip.String(), fmt.Sprint(port))
}

// TestDefaults starts without any flag: the port is 9090, and the data is in ./sluice-data.
func TestDefaults(t *testing.T) {
	testenv.Require(t, testenv.Port9090)
	s := &e2e.Server{T: t, Data: "./sluice-data"}
	s.Run([]string{e2e.Sluice, "serve"})
	t.Cleanup(func() {
		if s.Running() {
			s.Kill()
		}
	})
	if s.URL != "http://localhost:9090" {
		t.Errorf("announced as %s", s.URL)
	}
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "name"), []byte("x"))
	if info, err := os.Stat(filepath.Join(s.Command.Dir, "sluice-data")); err != nil || !info.IsDir() {
		t.Errorf("./sluice-data: %v", err)
	}
	s.Stop()
}
