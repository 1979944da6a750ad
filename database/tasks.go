package database

import (
	"context"
	"time"

	"sluice/access/actions"
)

// TaskRun is a background task's run that has ended.
type TaskRun struct {
	Began time.Time // zero: there was none
	Took  time.Duration
	Count int64  // of things that the run handled
	Error string // why it did not handle all of it, or ""
	Node  string // name
}

// Task is a background task's state: an operator pauses and starts it at any node, and the leader
// obeys, and publishes the rest.
type Task struct {
	Name    string
	Paused  time.Time // since when; zero: it is not paused
	Reason  string    // why it is paused; "": an operator has paused it
	Wanted  time.Time // when the start was requested that no run has served yet; zero: none was
	Running time.Time // since when a run is in progress; zero: none is
	Next    time.Time // when the next run is planned; zero: it is not, or not known
	Last    TaskRun
}

// TaskProgress is a task's state as the leader publishes it.
type TaskProgress struct {
	Name          string
	Running, Next time.Time
	Last          *TaskRun  // nil: none has ended since the last one that was published
	Served        time.Time // Task.Wanted, if a run has served that start; otherwise zero
}

// Tasks holds the states of background tasks, so that pauses and requested starts outlive the
// leader. They belong to the database: neither a backup nor a restore has them.
//
// The store itself pauses the tasks task.Waiting that have something to do, with a Reason, in the
// transaction that begins a generation, and in the one in which KeepTime adopts a time to which the
// clock was set by more than five minutes while a process ran. Until they are resumed, nothing is
// deleted by them.
type Tasks interface {
	// ListTasks returns the tasks that have a state, by name.
	ListTasks(ctx context.Context) ([]Task, error)

	// ChangeTask calls change with the time and a task's state, which is zero if it has none, and
	// stores Paused, Reason and Wanted as change leaves them, with the act that it returns. It is
	// one transaction, and other changes wait for it. An error of change is returned, and then
	// nothing is stored; so is actions.ErrStale. change may be called several times.
	ChangeTask(ctx context.Context, name string, change func(now time.Time, t *Task) (*actions.Act, error)) (Task, error)

	// PublishTasks stores the progress of tasks, in one transaction. If Wanted of a task equals its
	// Served, it becomes zero.
	PublishTasks(ctx context.Context, list []TaskProgress) error
}
