package node

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice/internal/metrics"
	"sluice/internal/task"
)

// TestMetricsOfTasks checks the metrics after a task succeeded and then failed, and with a
// task that never ran.
func TestMetricsOfTasks(t *testing.T) {
	tasks := newTaskLog(nil, newTaskLines(slog.New(slog.DiscardHandler)))
	began := time.Unix(1_000, 0)
	tasks.add(task.Run{Task: task.Purge, Began: began, Took: 2 * time.Second, Count: 5})
	tasks.add(task.Run{Task: task.Purge, Began: began.Add(time.Minute), Took: time.Second, Count: 3, Err: errors.New("the database is unavailable")})
	set := metrics.NewSet()
	registerTasks(set, tasks)
	wantLines(t, set, "after two runs", true,
		`sluice_task_runs_total{task="purge"} 2`, `sluice_task_failures_total{task="purge"} 1`, `sluice_task_handled_total{task="purge"} 8`,
		`sluice_task_last_run_timestamp_seconds{task="purge"} 1061`, `sluice_task_last_success_timestamp_seconds{task="purge"} 1002`,
		`sluice_task_last_run_failed{task="purge"} 1`, `sluice_task_last_run_seconds{task="purge"} 1`, `sluice_task_last_run_handled{task="purge"} 3`,
		`sluice_task_runs_total{task="sweep"} 0`)
	if strings.Contains(exposed(set), `last_run_timestamp_seconds{task="sweep"}`) {
		t.Error("a task that never ran has a last run")
	}
}

// TestOverdueTasks checks for how long tasks are overdue: by their interval, since the last success
// on this node or since it leads, and only while it leads.
// Invariant 139.
func TestOverdueTasks(t *testing.T) {
	config := Config{Tuning: Tuning{PurgeEvery: time.Hour, SweepEvery: 24 * time.Hour}}
	tasks := newTaskLog(config.intervals(), newTaskLines(slog.New(slog.DiscardHandler)))
	start := time.Unix(1_000_000, 0)
	overdue := func(name task.Name, after, want time.Duration) {
		t.Helper()
		if got, leads := tasks.overdue(string(name), start.Add(after)); !leads || got != want {
			t.Errorf("after %s %s is overdue for %s, %t; want %s", after, name, got, leads, want)
		}
	}
	ended := func(name task.Name, after time.Duration, err error) {
		tasks.add(task.Run{Task: name, Began: start.Add(after - time.Second), Took: time.Second, Err: err})
	}
	if _, leads := tasks.overdue(string(task.Purge), start); leads {
		t.Error("a task is overdue on a node that does not lead")
	}
	tasks.lead(start)
	overdue(task.Purge, 59*time.Minute, 0)
	overdue(task.Purge, 90*time.Minute, 30*time.Minute) // it never ran
	overdue(task.Sweep, 90*time.Minute, 0)
	overdue(task.Settle, 90*time.Minute, 90*time.Minute)
	ended(task.Purge, 2*time.Hour, errors.New("the database is unavailable"))
	overdue(task.Purge, 2*time.Hour, time.Hour)
	ended(task.Purge, 3*time.Hour, nil)
	overdue(task.Purge, 4*time.Hour, 0)
	overdue(task.Purge, 5*time.Hour, time.Hour)
	tasks.control.Pause(task.Purge, true)
	overdue(task.Purge, 6*time.Hour, 0)
	wantPaused(t, tasks, `sluice_task_paused{task="purge"} 1`, `sluice_task_paused{task="sweep"} 0`)
	tasks.lead(time.Time{})
	wantPaused(t, tasks, `sluice_task_paused{task="purge"} 0`)
	if _, leads := tasks.overdue(string(task.Purge), start.Add(6*time.Hour)); leads || tasks.leading() {
		t.Error("a task is overdue on a node that leads no longer")
	}
	tasks.lead(start.Add(100 * time.Hour)) // another node has purged meanwhile
	overdue(task.Purge, 101*time.Hour, 0)
	overdue(task.Purge, 102*time.Hour, 0)
	tasks.control.Pause(task.Purge, false)
	if got, _ := tasks.overdue(string(task.Purge), time.Now().Add(90*time.Minute)); got < 29*time.Minute || got > 31*time.Minute {
		t.Errorf("90 minutes after a pause it is overdue for %s", got)
	}
}

func wantPaused(t *testing.T, tasks *taskLog, lines ...string) {
	t.Helper()
	set := metrics.NewSet()
	registerTasks(set, tasks)
	wantLines(t, set, "paused", true, lines...)
}
