package instances

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"sluice/cmd/sluice/internal/administration"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
	"sluice/wire"
)

// Task manages the background tasks, which one of the nodes does.
type Task struct {
	List   taskList   `cmd:"" aliases:"ls" help:"List the background tasks, with their last runs and next ones."`
	Start  taskStart  `cmd:"" help:"Let the leader run a task soon."`
	Pause  taskPause  `cmd:"" help:"End a task's run, and let none begin until it is resumed."`
	Resume taskResume `cmd:"" help:"End a task's pause."`
}

type taskList struct{ administration.Flags }

// Run prints the tasks.
func (c *taskList) Run(ctx context.Context, console *cli.Console) error {
	return c.With(ctx, console, administration.Options{}, func(ctx context.Context, on administration.Instance) error {
		list, err := on.Tasks(ctx)
		if err != nil {
			return err
		}
		return printTasks(c.Table(console, taskHeading), list...)
	})
}

const taskHeading = "TASK\tSTATE\tLAST RUN\tHANDLED\tERROR\tNEXT RUN\tREASON"

// reasonOf returns why a task is paused, and how much it would delete now.
func reasonOf(t wire.Task) string {
	parts := []string{t.Reason}
	if d := t.Due; d != nil {
		text := fmt.Sprintf("it would delete %s with %s now", units.Count(d.Versions, "version"), units.Bytes(d.Bytes))
		if d.More {
			text += ", and perhaps more"
		}
		parts = append(parts, text)
	}
	return cmp.Or(strings.TrimPrefix(strings.Join(parts, "; "), "; "), "-")
}

func printTasks(table *cli.Table, list ...wire.Task) error {
	return cli.PrintAll(table, cli.Each(slices.Values(list)), func(t wire.Task) []string {
		state := "waiting"
		switch {
		case !t.Paused.IsZero():
			state = "paused"
		case !t.Running.IsZero():
			state = "running"
		case !t.Wanted.IsZero():
			state = "starting"
		}
		last, handled, failure := "-", "-", "-"
		if t.Last != nil {
			last, handled = cli.TimeText(t.Last.Began), fmt.Sprint(t.Last.Handled)
			if t.Last.Error != "" {
				failure = t.Last.Error
			}
		}
		return []string{t.Task, state, last, handled, failure, cmp.Or(cli.TimeText(t.Next), "-"), reasonOf(t)}
	})
}

// oneTask is a command on one task.
type oneTask struct {
	administration.Flags

	Task string `arg:"" placeholder:"TASK" help:"Name of the task, as task list prints it."`
}

// run calls fn and prints the task that it returns.
func (c *oneTask) run(ctx context.Context, console *cli.Console, fn func(administration.Instance, context.Context, string) (wire.Task, error)) error {
	return c.With(ctx, console, administration.Options{}, func(ctx context.Context, on administration.Instance) error {
		t, err := fn(on, ctx, c.Task)
		if err != nil {
			return administration.Explain(err, "there is no task %s: sluice task list shows all", terminal.Name(c.Task))
		}
		return printTasks(c.Table(console, taskHeading), t)
	})
}

type taskStart struct{ oneTask }

// Run starts the task. By a database, the leader sees it within seconds.
func (c *taskStart) Run(ctx context.Context, console *cli.Console) error {
	return c.run(ctx, console, administration.Instance.StartTask)
}

type taskPause struct{ oneTask }

// Run pauses the task.
func (c *taskPause) Run(ctx context.Context, console *cli.Console) error {
	return c.run(ctx, console, administration.Instance.PauseTask)
}

type taskResume struct{ oneTask }

// Run ends the task's pause.
func (c *taskResume) Run(ctx context.Context, console *cli.Console) error {
	return c.run(ctx, console, administration.Instance.ResumeTask)
}

// Node shows the nodes of an instance.
type Node struct {
	List nodeList `cmd:"" aliases:"ls" help:"List the nodes that run, with their versions and whether they are ready."`
}

type nodeList struct{ administration.Flags }

// Run prints the nodes. By a database they are those that share it.
func (c *nodeList) Run(ctx context.Context, console *cli.Console) error {
	return c.With(ctx, console, administration.Options{}, func(ctx context.Context, on administration.Instance) error {
		list, err := on.Nodes(ctx)
		switch {
		case err != nil:
			return err
		case len(list) == 0:
			return c.Remark(console, "No node shares this database. The server of a data folder lists itself: name it with --url or --context.")
		}
		return cli.PrintAll(c.Table(console, "NODE\tVERSION\tSTATE\tSINCE\tLEADER"), cli.Each(slices.Values(list)), func(n wire.Node) []string {
			state, leader := "ready", "-"
			if !n.Ready {
				state = "not ready: " + n.Reason
			}
			if n.Leader {
				leader = "yes"
			}
			return []string{n.Name, n.Version, state, cli.TimeText(n.Since), leader}
		})
	})
}
