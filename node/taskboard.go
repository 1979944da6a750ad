package node

import (
	"context"
	"log/slog"
	"time"

	"sluice/database"
	"sluice/internal/task"
)

// taskPoll is the interval at which the leader asks whether a task is to be paused or started.
const taskPoll = 2 * time.Second

// taskStore holds the tasks' states, and has the clock for them.
type taskStore interface {
	database.Tasks
	Now() time.Time
}

// taskBoard lets the leader obey operators at all nodes, and publishes its tasks for them.
type taskBoard struct {
	store   taskStore
	control *task.Control
	node    string
	log     *slog.Logger
	look    chan struct{} // of capacity 1: a request has arrived at this node
	failed  bool          // the last exchange with the store
}

func newTaskBoard(store taskStore, control *task.Control, node string, log *slog.Logger) *taskBoard {
	return &taskBoard{store: store, control: control, node: node, log: log, look: make(chan struct{}, 1)}
}

// lookNow makes run look for requests, if this node leads.
func (b *taskBoard) lookNow() {
	select {
	case b.look <- struct{}{}:
	default:
	}
}

// open learns which tasks are paused, and tries again each second. It reports false if ctx ends.
func (b *taskBoard) open(ctx context.Context) bool {
	for {
		list, err := b.store.ListTasks(ctx)
		if b.report(ctx, err); err == nil {
			b.pause(list)
			return ctx.Err() == nil
		}
		if task.Wait(ctx, time.Second) != nil {
			return false
		}
	}
}

// run obeys and publishes until ctx ends, and returns when the runs that it started have ended.
func (b *taskBoard) run(ctx context.Context) {
	defer b.control.Wait()
	tick := time.NewTicker(taskPoll)
	defer tick.Stop()
	for {
		b.report(ctx, b.exchange(ctx))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-b.look:
		case <-b.control.Changed():
		}
	}
}

// exchange obeys the requests, and publishes what has changed. A start that is not served yet is
// made again each time, so none is lost.
func (b *taskBoard) exchange(ctx context.Context) error {
	list, err := b.store.ListTasks(ctx)
	if err != nil {
		return err
	}
	b.pause(list)
	for _, t := range list {
		if name := task.Name(t.Name); task.Startable[name] && !t.Wanted.IsZero() {
			b.control.Start(ctx, name, t.Wanted)
		}
	}
	changes := b.control.Changes()
	if len(changes) == 0 {
		return nil
	}
	if err := b.store.PublishTasks(ctx, b.progress(changes)); err != nil {
		b.control.Unpublished(changes)
		return err
	}
	return nil
}

// pause pauses the tasks that are paused, and continues the others.
func (b *taskBoard) pause(list []database.Task) {
	states := map[task.Name]database.Task{}
	for _, t := range list {
		states[task.Name(t.Name)] = t
	}
	for name := range task.Pausable {
		t := states[name]
		if was, _ := b.control.Paused(name); !was && t.Reason != "" {
			b.log.Warn("a background task waits until it is resumed: sluice task list shows what it would delete", "task", t.Name, "reason", t.Reason)
		}
		b.control.Pause(name, !t.Paused.IsZero())
	}
}

// progress returns changes with times by the store's clock.
func (b *taskBoard) progress(changes []task.Progress) (list []database.TaskProgress) {
	ahead := time.Until(b.store.Now())
	stored := func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		return t.Add(ahead)
	}
	for _, c := range changes {
		p := database.TaskProgress{Name: string(c.Task), Running: stored(c.Running), Next: stored(c.Next), Served: c.Served}
		if c.Last != nil {
			p.Last = &database.TaskRun{Began: stored(c.Last.Began), Took: c.Last.Took, Count: c.Last.Count, Node: b.node}
			if c.Last.Err != nil {
				p.Last.Error = published(c.Last.Err)
			}
		}
		list = append(list, p)
	}
	return list
}

// report logs the first of several failures.
func (b *taskBoard) report(ctx context.Context, err error) {
	if err != nil && !b.failed && ctx.Err() == nil {
		b.log.Error("background task failed", "task", "watch tasks", "error", err)
	}
	b.failed = err != nil
}
