package node

import (
	"slices"
	"sync"
	"time"

	"sluice/internal/task"
)

// taskLog holds each task's history. Its methods may be called concurrently.
type taskLog struct {
	every   map[task.Name]time.Duration // intervals, for tasks that have one
	control *task.Control               // makes runs, and adds them
	lines   *taskLines

	mu    sync.Mutex
	tasks map[task.Name]*taskHistory
	leads time.Time // since when this node does the leader's work; zero: it does not
}

// taskHistory describes a task's runs on this node. It is zero before the first run.
type taskHistory struct {
	runs, failures int64
	handled        int64
	last           task.Run
	succeeded      time.Time // when the last run without an error ended; zero: none
}

// The tasks that run at intervals while this node leads: those with an interval that a flag sets,
// and with them those that run at least every minute.
var (
	timed    = []string{string(task.Purge), string(task.Versions), string(task.Rules), string(task.Changes), string(task.RestoreReserve), string(task.Sweep)}
	periodic = append(slices.Clone(timed), string(task.Settle), string(task.ReviewSettlements))
)

// pausable are the tasks that an operator may pause.
var pausable = names(func(name task.Name) bool { return task.Pausable[name] })

// names returns the names of some tasks.
func names(of func(task.Name) bool) (list []string) {
	for _, name := range task.Names {
		if of(name) {
			list = append(list, string(name))
		}
	}
	return list
}

// intervals returns the timed tasks' intervals.
func (c *Config) intervals() map[task.Name]time.Duration {
	t := c.tuning()
	return map[task.Name]time.Duration{task.Purge: t.PurgeEvery, task.Versions: t.PurgeEvery, task.Rules: t.PurgeEvery, task.Changes: t.PurgeEvery, task.RestoreReserve: t.PurgeEvery, task.Sweep: t.SweepEvery}
}

func newTaskLog(every map[task.Name]time.Duration, lines *taskLines) *taskLog {
	l := &taskLog{every: every, lines: lines, tasks: map[task.Name]*taskHistory{}}
	l.control = task.NewControl(l.add)
	for _, name := range task.Names {
		l.tasks[name] = &taskHistory{}
	}
	return l
}

// lead records that this node does the leader's work from now on, or no longer if now is zero.
func (l *taskLog) lead(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leads = now
}

// leading reports whether this node does the leader's work.
func (l *taskLog) leading() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.leads.IsZero()
}

// overdue returns the time since the last success of a periodic task on the leader, or since it
// leads, or since its pause has ended, minus the task's interval. It is 0 for a paused task. It
// reports false if this node does not lead.
func (l *taskLog) overdue(name string, now time.Time) (_ time.Duration, leads bool) {
	paused, since := l.control.Paused(task.Name(name))
	l.mu.Lock()
	defer l.mu.Unlock()
	if paused {
		return 0, !l.leads.IsZero()
	}
	if l.leads.After(since) {
		since = l.leads
	}
	if last := l.tasks[task.Name(name)].succeeded; last.After(since) {
		since = last
	}
	return max(0, now.Sub(since)-l.every[task.Name(name)]), !l.leads.IsZero()
}

// note adds a run that control has not made.
func (l *taskLog) note(run task.Run) {
	l.control.Note(run)
	l.add(run)
}

// add adds a run, and logs it.
func (l *taskLog) add(run task.Run) {
	l.lines.add(run)
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.tasks[run.Task]
	h.runs++
	h.handled += run.Count
	h.last = run
	if run.Err != nil {
		h.failures++
	} else {
		h.succeeded = run.Began.Add(run.Took)
	}
}

// paused reports whether a task is paused, and this node leads.
func (l *taskLog) paused(name string) bool {
	paused, _ := l.control.Paused(task.Name(name))
	return paused && l.leading()
}

// of returns a task's runs.
func (l *taskLog) of(name string) taskHistory {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *l.tasks[task.Name(name)]
}
