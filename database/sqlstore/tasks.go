package sqlstore

import (
	"context"
	"time"

	"sluice/access/actions"
	"sluice/database"
	"sluice/database/sqlstore/internal/acts"
	"sluice/database/sqlstore/internal/engine"
	"sluice/internal/task"
	"sluice/internal/units"
)

const taskQuery = `SELECT name, paused, reason, wanted, running, due, began, took, handled, error, node FROM tasks `

func taskFields(t *database.Task) engine.Args {
	return engine.Args{
		&t.Name, (*engine.Instant)(&t.Paused), (*engine.OptionalText)(&t.Reason), (*engine.Instant)(&t.Wanted), (*engine.Instant)(&t.Running), (*engine.Instant)(&t.Next),
		(*engine.Instant)(&t.Last.Began), (*engine.Integer)(&t.Last.Took), (*engine.Integer)(&t.Last.Count), (*engine.OptionalText)(&t.Last.Error), (*engine.OptionalText)(&t.Last.Node),
	}
}

// ListTasks implements database.Tasks.
func (s *Store) ListTasks(ctx context.Context) ([]database.Task, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t storeTx) ([]database.Task, error) {
		var one database.Task
		return engine.Collect(t.Tx, taskQuery+`ORDER BY name`, nil, taskFields(&one), &one)
	})
}

// ChangeTask implements database.Tasks.
func (s *Store) ChangeTask(ctx context.Context, name string, change func(now time.Time, t *database.Task) (*actions.Act, error)) (database.Task, error) {
	return engine.ResultOf(ctx, s.in.WriteLocked, func(t storeTx) (database.Task, error) {
		if err := t.Lock("tasks"); err != nil {
			return database.Task{}, err
		}
		one := database.Task{Name: name}
		if _, err := t.Row(taskQuery+`WHERE name = $1`, engine.Args{[]byte(name)}, taskFields(&one)...); err != nil {
			return one, err
		}
		act, err := change(t.Now, &one)
		if err != nil {
			return one, err
		}
		if err := acts.Record(t.Tx, act); err != nil {
			return one, err
		}
		_, err = t.Exec(`INSERT INTO tasks (name, paused, wanted, reason) VALUES ($1, $2, $3, $4)
			ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, wanted = excluded.wanted, reason = excluded.reason`,
			[]byte(name), engine.Micros(one.Paused), engine.Micros(one.Wanted), engine.OptionalColumn(one.Reason))
		return one, err
	})
}

// settings are the tables without rows in which a task of task.Waiting has nothing to do.
var settings = map[task.Name]string{task.Versions: "keeping", task.Rules: "rules"}

// pauseWaiting pauses the tasks task.Waiting for a reason.
func pauseWaiting(t *engine.Tx, reason string) error {
	if err := t.Lock("tasks"); err != nil {
		return err
	}
	for _, name := range task.Waiting {
		var one engine.Integer
		found, err := t.Row(`SELECT 1 FROM `+settings[name]+` LIMIT 1`, nil, &one)
		if err == nil && found {
			err = t.Change(`INSERT INTO tasks (name, paused, reason) VALUES ($1, $2, $3)
				ON CONFLICT (name) DO UPDATE SET paused = COALESCE(tasks.paused, excluded.paused), wanted = NULL, reason = excluded.reason`,
				[]byte(name), engine.Micros(t.Now), []byte(reason))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// PublishTasks implements database.Tasks.
func (s *Store) PublishTasks(ctx context.Context, list []database.TaskProgress) error {
	return s.in.WriteLocked(ctx, func(t storeTx) error {
		t.Free = true
		if err := t.Lock("tasks"); err != nil {
			return err
		}
		for i := range list {
			if err := t.publish(&list[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t storeTx) publish(p *database.TaskProgress) error {
	_, err := t.Exec(`INSERT INTO tasks (name, running, due) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET running = excluded.running, due = excluded.due,
			wanted = CASE WHEN tasks.wanted = $4 THEN NULL ELSE tasks.wanted END`,
		[]byte(p.Name), engine.Micros(p.Running), engine.Micros(p.Next), engine.Micros(p.Served))
	if err != nil || p.Last == nil {
		return err
	}
	_, err = t.Exec(`UPDATE tasks SET began = $2, took = $3, handled = $4, error = $5, node = $6 WHERE name = $1`,
		[]byte(p.Name), engine.Micros(p.Last.Began), int64(p.Last.Took), p.Last.Count, engine.OptionalColumn(p.Last.Error), engine.OptionalColumn(p.Last.Node))
	return err
}

// KeepTime implements database.Maintenance.
func (s *Store) KeepTime(ctx context.Context) error {
	return s.db.KeepTime(ctx, func(t *engine.Tx, by time.Duration) error {
		return pauseWaiting(t, "the clock was set by "+units.FormatDuration(by.Round(time.Second)))
	})
}
