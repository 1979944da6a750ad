package task

import (
	"context"
	"sync"
	"time"
)

// Control makes a node's runs, each task's one after the other, and lets an operator pause and
// start tasks. Its methods may be called concurrently.
type Control struct {
	report  Report
	changed chan struct{} // of capacity 1: progress must be published now
	started sync.WaitGroup

	mu    sync.Mutex
	tasks map[Name]*controlled
}

// controlled is a task. The fields after waits are guarded by Control.mu.
type controlled struct {
	slot  chan struct{} // holds an element while a run is in progress
	work  func(context.Context) (int64, error)
	waits func(error) bool

	now       Progress
	stop      context.CancelFunc // ends the run in progress
	paused    bool
	resumed   time.Time // when the last pause ended; zero: there was none
	serving   time.Time // the start that the next end of a run serves; zero: none
	changed   bool      // since now was published
	urgent    bool
	published time.Time
}

// Progress is a task's state at a node that leads, with times by the node's clock.
type Progress struct {
	Task    Name
	Running time.Time // since when a run is in progress; zero: none is
	Next    time.Time // when the next run is planned; zero: it is not
	Last    *Run      // the last one, if it has ended since the last call of Changes
	Served  time.Time // the latest start that a run has served
}

// publishEvery is the least time between two times at which a task's progress is published, if it
// is not rare and no start is served.
const publishEvery = time.Minute

// NewControl returns a Control that reports each run to report.
func NewControl(report Report) *Control {
	c := &Control{report: report, changed: make(chan struct{}, 1), tasks: map[Name]*controlled{}}
	for _, name := range Names {
		c.tasks[name] = &controlled{slot: make(chan struct{}, 1), now: Progress{Task: name}}
	}
	return c
}

// Define sets how a task works. A run that returns an error for which waits reports true counts as
// not made: it is not reported, and a start waits for another one.
func (c *Control) Define(name Name, waits func(error) bool, work func(context.Context) (int64, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tasks[name].work, c.tasks[name].waits = work, waits
}

// Do makes a run of a task that Define has set, after the run in progress, unless the task is
// paused. A pause ends the run's context, and such a run is not reported.
func (c *Control) Do(ctx context.Context, name Name) {
	t := c.tasks[name]
	select {
	case t.slot <- struct{}{}:
		defer func() { <-t.slot }()
		c.run(ctx, name, t)
	case <-ctx.Done():
	}
}

// Start makes a run for the start that was requested at this time, unless one has served it
// already. A run in progress serves it too. If there is none for now, Start must be called again.
func (c *Control) Start(ctx context.Context, name Name, wanted time.Time) {
	t := c.tasks[name]
	c.mu.Lock()
	due := t.work != nil && !t.paused && !t.now.Served.Equal(wanted)
	if due {
		t.serving = wanted
	}
	c.mu.Unlock()
	if !due {
		return
	}
	select {
	case t.slot <- struct{}{}:
		c.started.Go(func() {
			defer func() { <-t.slot }()
			c.run(ctx, name, t)
		})
	default:
	}
}

// Wait waits for the runs that Start has begun.
func (c *Control) Wait() { c.started.Wait() }

func (c *Control) run(ctx context.Context, name Name, t *controlled) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	run := Run{Task: name, Began: time.Now()}
	if !c.begin(t, run.Began, stop) {
		return
	}
	run.Count, run.Err = t.work(ctx)
	run.Took = time.Since(run.Began)
	made := run.Err == nil || ctx.Err() == nil && !t.waits(run.Err)
	if c.end(t, run, made); made {
		c.report(run)
	}
}

func (c *Control) begin(t *controlled, now time.Time, stop context.CancelFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.paused {
		return false
	}
	t.now.Running, t.stop = now, stop
	c.change(t)
	return true
}

func (c *Control) end(t *controlled, run Run, made bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.now.Running, t.stop = time.Time{}, nil
	c.change(t)
	if made {
		t.now.Last = &run
		if !t.serving.IsZero() {
			t.now.Served, t.serving = t.serving, time.Time{}
		}
	}
}

// change records that a task has changed. c.mu must be locked.
func (c *Control) change(t *controlled) {
	t.changed = true
	if rare[t.now.Task] || !t.serving.IsZero() {
		t.urgent = true
		select {
		case c.changed <- struct{}{}:
		default:
		}
	}
}

// Note records a run of a task that runs without Do.
func (c *Control) Note(run Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tasks[run.Task].now.Last, c.tasks[run.Task].changed = &run, true
}

// Pause pauses a task, or ends its pause.
func (c *Control) Pause(name Name, paused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tasks[name]
	if t.paused && !paused {
		t.resumed = time.Now()
	}
	if t.paused = paused; paused && t.stop != nil {
		t.stop()
	}
}

// Paused reports whether a task is paused, and when its last pause ended.
func (c *Control) Paused(name Name) (paused bool, resumed time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tasks[name].paused, c.tasks[name].resumed
}

// Plan records when tasks run next.
func (c *Control) Plan(at time.Time, names ...Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		c.tasks[name].now.Next, c.tasks[name].changed = at, true
	}
}

// Repeat is Repeat for these tasks, and plans them.
func (c *Control) Repeat(ctx context.Context, first, period time.Duration, work func(), names ...Name) {
	c.Plan(time.Now().Add(first), names...)
	Repeat(ctx, first, period, func() {
		work()
		c.Plan(time.Now().Add(period), names...)
	})
}

// Changed returns a channel that receives when Changes should be called at once. It should be
// called every few seconds otherwise.
func (c *Control) Changed() <-chan struct{} { return c.changed }

// Changes returns the progress to publish: of rare runs and requested ones now, of others each
// minute.
func (c *Control) Changes() (list []Progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range Names {
		t := c.tasks[name]
		if !t.changed || !t.urgent && time.Since(t.published) < publishEvery {
			continue
		}
		list = append(list, t.now)
		t.now.Last, t.changed, t.urgent, t.published = nil, false, false, time.Now()
	}
	return list
}

// Unpublished takes back a result of Changes that could not be published.
func (c *Control) Unpublished(list []Progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range list {
		t := c.tasks[p.Task]
		t.changed, t.urgent = true, true
		if t.now.Last == nil {
			t.now.Last = p.Last
		}
	}
}
