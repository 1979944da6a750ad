package main

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

// TestBacklogMetrics: the garbage that waits is among the metrics, and a
// database that does not answer takes nothing but that away.
func TestBacklogMetrics(t *testing.T) {
	backlog, failure := metastore.Backlog{Contents: 12, Oldest: 90 * time.Second}, error(nil)
	metrics := newRegistry()
	metrics.MustRegister(backlogMetrics{func(ctx context.Context) (metastore.Backlog, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the database may take any time")
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
	failure = errors.New("the database is away")
	status, body = adminGet(t, server, "localhost", "GET", "/metrics")
	if status != 200 || strings.Contains(body, "sluice_garbage") || !strings.Contains(body, "go_goroutines") {
		t.Errorf("without the database: %d, %q", status, body)
	}
}
