package node

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/storage"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestClientsAreToldOfACheck asks a node that checks its database: it lives, is not ready, and
// reports its current step and how far it is. Invariant 110.
func TestClientsAreToldOfACheck(t *testing.T) {
	free := testenv.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	addr := free.Addr().String()
	testenv.OK(t, free.Close())
	config := &Config{}
	config.Addr = addr
	u := &unready{config: config, log: slog.New(slog.DiscardHandler)}
	defer func() { testenv.Check(t, u.stop()) }()
	for _, now := range []storage.Steps{{Why: "why", What: "pages", Done: 3, Total: 30}, {Why: "why", What: "objects", Done: 1000, Total: 9000}} {
		testenv.OK(t, u.look(t.Context(), now))
		for path, status := range map[string]int{"/readyz": 503, "/v1/accounts": 503, "/livez": 200} {
			request := testenv.Must(http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+path, nil))(t)
			r := testenv.Must(http.DefaultClient.Do(request))(t)
			body := testenv.Must(io.ReadAll(r.Body))(t)
			testenv.Check(t, r.Body.Close())
			testenv.Equal(t, r.StatusCode, status, "the status of %s", path)
			var problem wire.Problem
			if status == 200 {
				continue
			}
			if err := json.Unmarshal(body, &problem); err != nil || problem.Code != "not_ready" || !strings.Contains(problem.Detail, now.String()) {
				t.Errorf("%s: %s, %v", path, body, err)
			}
		}
	}
}

// TestLinesAboutACheck checks that a check has a line when it begins, and then one in 10 seconds.
func TestLinesAboutACheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		failed := make(chan error)
		u := &unready{log: slog.New(slog.NewTextHandler(&log, nil)), server: &http.Server{ReadHeaderTimeout: time.Second}, failed: failed}
		for done := range int64(25) {
			testenv.OK(t, u.look(t.Context(), storage.Steps{Why: "another file", What: "objects", Done: done, Total: 25}))
			time.Sleep(time.Second)
		}
		testenv.OK(t, u.stop())
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 3 || !strings.Contains(lines[0], "another file") || !strings.Contains(lines[1], "10 of 25") || !strings.Contains(lines[2], "20 of 25") {
			t.Errorf("the lines are %q", lines)
		}
	})
}
