package operation

import (
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestContainerImageIsReachable starts the binary with the container image's environment and
// command, and runs its health check. A published port leads to a container address that is not
// loopback. 127.0.0.2 stands for it here: a server that listens on 127.0.0.1 and ::1 alone does not
// respond there.
func TestContainerImageIsReachable(t *testing.T) {
	text, err := os.ReadFile("../../deploy/Containerfile")
	testenv.OK(t, err)
	for _, line := range regexp.MustCompile(`(?m)^ENV (.+)$`).FindAllStringSubmatch(string(text), -1) {
		for _, pair := range strings.Fields(line[1]) {
			name, value, _ := strings.Cut(pair, "=")
			t.Setenv(name, value)
		}
	}
	address := os.Getenv("SLUICE_ADDR")
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatalf("the image listens on %q: %v", address, err)
	}
	if !strings.Contains(string(text), "EXPOSE "+port+"\n") {
		t.Errorf("the image listens on port %s, which it does not expose", port)
	}
	t.Setenv("SLUICE_ADDR", net.JoinHostPort(host, "0")) // the machine's own port may be in use
	data := filepath.Join(t.TempDir(), "data")
	t.Setenv("SLUICE_DATA", data)

	command := regexp.MustCompile(`(?m)^CMD (\[.+\])$`).FindStringSubmatch(string(text))
	if command == nil {
		t.Fatal("the image has no command")
	}
	var args []string
	testenv.OK(t, json.Unmarshal([]byte(command[1]), &args))
	s := &e2e.Server{T: t, Data: data}
	s.Run(append([]string{e2e.Sluice}, args...))
	defer func() {
		if s.Running() {
			s.Stop()
		}
	}()
	_, port, err = net.SplitHostPort(s.Host)
	testenv.OK(t, err)
	response, err := http.Get("http://" + net.JoinHostPort("127.0.0.2", port) + "/readyz")
	testenv.OK(t, err)
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("/readyz responds with %s, %v", response.Status, err)
	}

	// The image's health check, at this test's port.
	check := regexp.MustCompile(`(?m)^HEALTHCHECK .*CMD (\[.+\])$`).FindStringSubmatch(string(text))
	if check == nil {
		t.Fatal("the image has no health check")
	}
	if err := json.Unmarshal([]byte(check[1]), &args); err != nil || args[0] != "/sluice" {
		t.Fatal(args, err)
	}
	address, err = url.JoinPath(strings.Replace(os.Getenv("SLUICE_URL"), ":9090", ":"+port, 1))
	if err != nil || !strings.HasPrefix(address, "http://127.0.0.1:"+port) {
		t.Fatalf("the health check asks %q, %v", address, err)
	}
	t.Setenv("SLUICE_URL", address)
	if r := e2e.SluiceRuns(t, args[1:]...); r.Code != 0 {
		t.Errorf("the health check of a healthy service: %+v", r)
	}
	s.Stop()
	if r := e2e.SluiceRuns(t, args[1:]...); r.Code != 1 {
		t.Errorf("the health check of a service that has stopped: %+v", r)
	}
	for _, line := range []string{"RUN mkdir -p /out/root && mkdir -m 0700 /out/root/data\n", "COPY --from=build --chown=65532:65532 /out/root /\n", "USER 65532:65532\n", "VOLUME /data\n", "STOPSIGNAL SIGTERM\n"} {
		if !strings.Contains(string(text), line) {
			t.Errorf("the image lacks %q", line)
		}
	}
}
