package node

import (
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/internal/metrics"
	"sluice/internal/task"
)

// TestMetricsOfTasks checks the metrics of a task that succeeded and then failed, and of one that
// never ran.
func TestMetricsOfTasks(t *testing.T) {
	tasks := newTaskLog()
	began := time.Unix(1_000, 0)
	tasks.add(task.Run{Task: task.Purge, Began: began, Took: 2 * time.Second, Count: 5})
	tasks.add(task.Run{Task: task.Purge, Began: began.Add(time.Minute), Took: time.Second, Count: 3, Err: errors.New("the database is unavailable")})
	set := metrics.NewSet()
	registerTasks(set, tasks)
	w := httptest.NewRecorder()
	set.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		`sluice_task_runs_total{task="purge"} 2`, `sluice_task_failures_total{task="purge"} 1`, `sluice_task_handled_total{task="purge"} 8`,
		`sluice_task_last_run_timestamp_seconds{task="purge"} 1061`, `sluice_task_last_success_timestamp_seconds{task="purge"} 1002`,
		`sluice_task_last_run_failed{task="purge"} 1`, `sluice_task_last_run_seconds{task="purge"} 1`, `sluice_task_last_run_handled{task="purge"} 3`,
		`sluice_task_runs_total{task="sweep"} 0`,
	} {
		if !strings.Contains(w.Body.String(), "\n"+line+"\n") {
			t.Errorf("the metrics lack %q", line)
		}
	}
	if strings.Contains(w.Body.String(), `last_run_timestamp_seconds{task="sweep"}`) {
		t.Error("a task that never ran has a last run")
	}
}
