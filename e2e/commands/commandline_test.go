package commands

import (
	"encoding/json"
	"strings"
	"testing"

	"sluice/e2e"
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
