package commands

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestHealthAndInfo checks the commands that ask a server about itself, also below a base path.
func TestHealthAndInfo(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "/sluice"} {
		o := e2e.Options{}
		if base != "" {
			o.Flags = []string{"--base-path", base}
		}
		s := e2e.Start(t, o)
		url := "http://" + s.Host + base
		if r := e2e.SluiceRuns(t, "health", "--url", url); r.Code != 0 || r.Stdout != "ready\n" || r.Stderr != "" {
			t.Errorf("health of %s: %+v", url, r)
		}
		if r := e2e.SluiceRuns(t, "health", "-q", "--url", url); r.Code != 0 || r.Stdout != "" {
			t.Errorf("quiet health of %s: %+v", url, r)
		}
		r := e2e.SluiceRuns(t, "info", "--json", "--url", url)
		var info wire.Info
		if err := json.Unmarshal([]byte(r.Stdout), &info); err != nil || r.Code != 0 || info.Profile != "local" || info.Limits.MaxBlobSize == 0 {
			t.Errorf("info of %s: %+v, %v", url, r, err)
		}
		r = e2e.SluiceRuns(t, "info", "--url", url)
		for _, want := range []string{url, "local", "everyone", info.Payment.Receiver} {
			if r.Code != 0 || !strings.Contains(r.Stdout, want) {
				t.Errorf("info of %s lacks %q: %+v", url, want, r)
			}
		}
		s.Stop()
		if r := e2e.SluiceRuns(t, "health", "--url", url); r.Code != 1 || r.Stdout != "" || !strings.Contains(r.Stderr, url+" is not healthy: ") {
			t.Errorf("health of a stopped server: %+v", r)
		}
	}
}

// silentServer accepts connections and never responds.
func silentServer(t *testing.T) (silent net.Listener, url string) {
	t.Helper()
	silent = testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	testenv.AtEnd(t, silent.Close)
	return silent, "http://" + silent.Addr().String()
}

// TestInterruptedCommand checks a command's exit code after Ctrl-C has ended it.
func TestInterruptedCommand(t *testing.T) {
	t.Parallel()
	silent, url := silentServer(t)
	command := exec.Command(e2e.Sluice, "health", "--timeout", "1h", "--url", url)
	var stderr strings.Builder
	command.Stderr = &stderr
	testenv.OK(t, command.Start())
	testenv.OK(t, testenv.Error(silent.Accept())) // the command has begun
	testenv.OK(t, command.Process.Signal(os.Interrupt))
	var exit *exec.ExitError
	if err := command.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 || stderr.String() != "sluice: interrupted\n" {
		t.Errorf("%v, %q, want exit code 130", err, stderr.String())
	}
}

// TestHealthOfASilentServer checks that the probe ends after its timeout.
func TestHealthOfASilentServer(t *testing.T) {
	t.Parallel()
	_, url := silentServer(t)
	e2e.CheckFailedStart(t, e2e.SluiceRuns(t, "health", "--timeout", "100ms", "--url", url), url+" is not healthy: no response within 100ms")
}
