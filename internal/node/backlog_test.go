package node

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/metastore"
)

// TestBacklogMetrics checks that the garbage is among the metrics, and that the
// other metrics are served when the database does not respond.
func TestBacklogMetrics(t *testing.T) {
	backlog, failure := metastore.Backlog{Contents: 12, Oldest: 90 * time.Second}, error(nil)
	metrics := newRegistry()
	metrics.MustRegister(backlogMetrics{func(ctx context.Context) (metastore.Backlog, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the query has no deadline")
		}
		return backlog, failure
	}})
	server := httptest.NewServer(adminHandler(metrics, slog.New(slog.DiscardHandler)))
	defer server.Close()
	status, body := adminGet(t, server, "localhost", "GET", "/metrics")
	for _, line := range []string{"\nsluice_garbage_contents 12\n", "\nsluice_garbage_oldest_seconds 90\n"} {
		if status != 200 || !strings.Contains(body, line) {
			t.Errorf("%d, without %q", status, line)
		}
	}
	failure = errors.New("the database is unavailable")
	status, body = adminGet(t, server, "localhost", "GET", "/metrics")
	if status != 200 || strings.Contains(body, "sluice_garbage") || !strings.Contains(body, "go_goroutines") {
		t.Errorf("without the database: %d, %q", status, body)
	}
}
