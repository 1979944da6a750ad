package e2e

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"sluice/wire"
)

// TestHealthAndInfo checks the commands that ask a server about itself, also below a base path.
func TestHealthAndInfo(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "/sluice"} {
		o := options{}
		if base != "" {
			o.flags = []string{"--base-path", base}
		}
		s := start(t, o)
		url := "http://" + s.host + base
		if r := sluiceRuns(t, "health", "--url", url); r.code != 0 || r.stdout != "ready\n" || r.stderr != "" {
			t.Errorf("health of %s: %+v", url, r)
		}
		if r := sluiceRuns(t, "health", "-q", "--url", url); r.code != 0 || r.stdout != "" {
			t.Errorf("quiet health of %s: %+v", url, r)
		}
		r := sluiceRuns(t, "info", "--json", "--url", url)
		var info wire.Info
		if err := json.Unmarshal([]byte(r.stdout), &info); err != nil || r.code != 0 || info.Profile != "local" || info.Limits.MaxBlobSize == 0 {
			t.Errorf("info of %s: %+v, %v", url, r, err)
		}
		r = sluiceRuns(t, "info", "--url", url)
		for _, want := range []string{url, "local", "everyone", info.Payment.Receiver} {
			if r.code != 0 || !strings.Contains(r.stdout, want) {
				t.Errorf("info of %s lacks %q: %+v", url, want, r)
			}
		}
		s.stop()
		if r := sluiceRuns(t, "health", "--url", url); r.code != 1 || r.stdout != "" || !strings.Contains(r.stderr, url+" is not healthy: ") {
			t.Errorf("health of a stopped server: %+v", r)
		}
	}
}

// TestInterruptedCommand checks a command's exit code after Ctrl-C has ended it.
func TestInterruptedCommand(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := silent.Close(); err != nil {
			t.Error(err)
		}
	})
	command := exec.Command(sluice, "health", "--timeout", "1h", "--url", "http://"+silent.Addr().String())
	var stderr strings.Builder
	command.Stderr = &stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := silent.Accept(); err != nil { // the command has begun
		t.Fatal(err)
	}
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := command.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 || stderr.String() != "sluice: interrupted\n" {
		t.Errorf("%v, %q, want exit code 130", err, stderr.String())
	}
}

// TestHealthOfASilentServer checks that the probe ends after its timeout.
func TestHealthOfASilentServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never responds
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := silent.Close(); err != nil {
			t.Error(err)
		}
	})
	url := "http://" + silent.Addr().String()
	checkFailedStart(t, sluiceRuns(t, "health", "--timeout", "100ms", "--url", url), url+" is not healthy: no response within 100ms")
}
