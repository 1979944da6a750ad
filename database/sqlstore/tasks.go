package sqlstore

import (
	"context"
	"time"

	"sluice/access/actions"
	"sluice/database"
	"sluice/database/sqlstore/internal/acts"
	"sluice/database/sqlstore/internal/engine"
)

const taskQuery = `SELECT name, paused, wanted, running, due, began, took, handled, error, node FROM tasks `

func taskFields(t *database.Task) engine.Args {
	return engine.Args{
		&t.Name, (*engine.Instant)(&t.Paused), (*engine.Instant)(&t.Wanted), (*engine.Instant)(&t.Running), (*engine.Instant)(&t.Next),
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
		_, err = t.Exec(`INSERT INTO tasks (name, paused, wanted) VALUES ($1, $2, $3)
			ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, wanted = excluded.wanted`,
			[]byte(name), engine.Micros(one.Paused), engine.Micros(one.Wanted))
		return one, err
	})
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
