package admin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sluice/access/actions"
	"sluice/database"
	"sluice/internal/task"
	"sluice/wire"
)

// Tasks returns the background tasks.
func (s *Service) Tasks(ctx context.Context, by By) (out wire.TaskList, err error) {
	if _, err := s.everything(ctx, by); err != nil {
		return out, err
	}
	states, err := s.store.ListTasks(ctx)
	if err != nil {
		return out, err
	}
	for _, name := range task.Names {
		t := database.Task{Name: string(name)}
		if i := slices.IndexFunc(states, func(s database.Task) bool { return s.Name == t.Name }); i >= 0 {
			t = states[i]
		}
		shown, err := s.taskOf(ctx, t)
		if err != nil {
			return wire.TaskList{}, err
		}
		out.Tasks = append(out.Tasks, shown)
	}
	return out, nil
}

// countedDue bounds the versions that are counted for a task that is paused.
const countedDue = 10_000

func (s *Service) taskOf(ctx context.Context, t database.Task) (wire.Task, error) {
	name := task.Name(t.Name)
	out := wire.Task{
		Task: t.Name, Pausable: task.Pausable[name], Startable: task.Startable[name],
		Paused: t.Paused, Reason: t.Reason, Wanted: t.Wanted, Running: t.Running, Next: t.Next,
	}
	if last := t.Last; !last.Began.IsZero() {
		out.Last = &wire.TaskRun{Began: last.Began, Seconds: float64(last.Took.Milliseconds()) / 1000, Handled: last.Count, Error: last.Error, Node: last.Node}
	}
	if name != task.Versions || t.Paused.IsZero() {
		return out, nil
	}
	versions, bytes, err := s.store.CountDue(ctx, countedDue)
	out.Due = &wire.TaskDue{Versions: versions, Bytes: bytes, More: versions == countedDue}
	return out, err
}

// StartTask lets the leader make a run of a task soon, or joins the run in progress. It has no
// effect if a start is pending.
func (s *Service) StartTask(ctx context.Context, by By, name string) (wire.Task, error) {
	return s.changeTask(ctx, by, name, "task.start", func(now time.Time, t *database.Task) error {
		switch {
		case !task.Startable[task.Name(name)]:
			return fmt.Errorf("%w: the task %s cannot be started: it runs by itself, every second or minute", ErrConflict, name)
		case !t.Paused.IsZero():
			return fmt.Errorf("%w: the task %s is paused%s: resume it first", ErrConflict, name, because(t.Reason))
		case t.Wanted.IsZero():
			t.Wanted = now
		}
		return nil
	})
}

// because returns a reason, if there is one, as the end of a sentence.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ", because " + reason
}

// PauseTask ends a task's run and pending start, and lets none begin until ResumeTask.
func (s *Service) PauseTask(ctx context.Context, by By, name string) (wire.Task, error) {
	return s.changeTask(ctx, by, name, "task.pause", func(now time.Time, t *database.Task) error {
		switch {
		case !task.Pausable[task.Name(name)]:
			return fmt.Errorf("%w: the task %s cannot be paused: data or payments could be lost", ErrConflict, name)
		case t.Paused.IsZero():
			t.Paused, t.Wanted = now, time.Time{}
		}
		return nil
	})
}

// ResumeTask ends a task's pause.
func (s *Service) ResumeTask(ctx context.Context, by By, name string) (wire.Task, error) {
	return s.changeTask(ctx, by, name, "task.resume", func(_ time.Time, t *database.Task) error {
		t.Paused, t.Reason = time.Time{}, ""
		return nil
	})
}

// asked is the part of a task that administrators change, for the record.
type asked struct {
	Paused time.Time `json:"paused,omitzero"`
	Reason string    `json:"reason,omitempty"`
	Wanted time.Time `json:"wanted,omitzero"`
}

func (s *Service) changeTask(ctx context.Context, by By, name, action string, change func(now time.Time, t *database.Task) error) (out wire.Task, err error) {
	err = s.decide(ctx, by, func(a actor) error {
		switch {
		case !a.everything():
			return ErrEverything
		case !slices.Contains(task.Names, task.Name(name)):
			return fmt.Errorf("%w: the task %.40q", ErrNotFound, name)
		}
		t, err := s.store.ChangeTask(ctx, name, func(now time.Time, t *database.Task) (*actions.Act, error) {
			before := asked{t.Paused, t.Reason, t.Wanted}
			if err := change(now, t); err != nil {
				return nil, err
			}
			after := asked{t.Paused, t.Reason, t.Wanted}
			if after == before {
				return nil, nil
			}
			return a.act(action, name, nil, before, after)
		})
		if err == nil {
			out, err = s.taskOf(ctx, t)
		}
		return err
	})
	if err != nil {
		return wire.Task{}, err
	}
	s.opt.TaskChanged()
	return out, nil
}

// Nodes returns the nodes that run.
func (s *Service) Nodes(ctx context.Context, by By) (out wire.NodeList, err error) {
	if _, err := s.everything(ctx, by); err != nil {
		return out, err
	}
	list, err := s.opt.Nodes(ctx)
	if err != nil {
		return out, err
	}
	out.Nodes = []wire.Node{}
	for _, n := range list {
		out.Nodes = append(out.Nodes, wire.Node{Name: n.Name, Version: n.Version, Ready: n.Reason == "", Reason: n.Reason, Since: n.Since, Leader: n.Leads})
	}
	return out, nil
}
