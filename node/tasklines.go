package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"sluice/internal/task"
)

// linePause is the time between two lines about a task that succeeds.
const linePause = time.Minute

// taskLines logs the runs of tasks: failures immediately, and the other runs together for a minute,
// because some tasks run several times a second. Its methods may be called concurrently.
type taskLines struct {
	log *slog.Logger

	mu      sync.Mutex
	waiting map[task.Name]*taskLine // tasks that had a line within linePause
}

// taskLine sums a task's runs since its last line.
type taskLine struct {
	runs, count int64
	took        time.Duration
}

func newTaskLines(log *slog.Logger) *taskLines {
	return &taskLines{log: log, waiting: map[task.Name]*taskLine{}}
}

// add logs a run, or adds it to the next line of its task.
func (l *taskLines) add(run task.Run) {
	one := taskLine{1, run.Count, run.Took}
	switch {
	case run.Err != nil:
		l.write(slog.LevelError, "background task failed", run.Task, one, slog.Any("error", run.Err))
	case !worthALine(run):
		l.write(slog.LevelDebug, taskEnded, run.Task, one)
	default:
		l.addDone(run.Task, one)
	}
}

// taskEnded is the message about runs without an error.
const taskEnded = "background task ended"

// worthALine reports whether a run is logged by default: it has removed, collected or healed
// something, or it was a sweep or the end of a scrub, which are rare.
func worthALine(run task.Run) bool {
	switch run.Task {
	case task.Sweep, task.Scrub:
		return true
	case task.FreeGarbage, task.Purge, task.Versions, task.Settle, task.Heal:
		return run.Count > 0
	default:
		return false
	}
}

func (l *taskLines) addDone(name task.Name, one taskLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if next := l.waiting[name]; next != nil {
		next.runs += one.runs
		next.count += one.count
		next.took += one.took
		return
	}
	l.write(slog.LevelInfo, taskEnded, name, one)
	l.waiting[name] = &taskLine{}
	time.AfterFunc(linePause, func() { l.writeNext(name) })
}

// writeNext writes the line that waits. If there is none, the next run is logged immediately.
func (l *taskLines) writeNext(name task.Name) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.waiting[name]
	if next == nil || next.runs == 0 {
		delete(l.waiting, name)
		return
	}
	l.write(slog.LevelInfo, taskEnded, name, *next)
	l.waiting[name] = &taskLine{}
	time.AfterFunc(linePause, func() { l.writeNext(name) })
}

// flush writes all lines that wait. It must be called after the last run.
func (l *taskLines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, next := range l.waiting {
		if next.runs > 0 {
			l.write(slog.LevelInfo, taskEnded, name, *next)
		}
	}
	clear(l.waiting)
}

func (l *taskLines) write(level slog.Level, message string, name task.Name, line taskLine, more ...slog.Attr) {
	l.log.LogAttrs(context.Background(), level, message, append([]slog.Attr{
		slog.String("task", string(name)), slog.Int64("runs", line.runs), slog.Int64("handled", line.count),
		slog.Float64("took_seconds", line.took.Round(time.Millisecond).Seconds()),
	}, more...)...)
}
