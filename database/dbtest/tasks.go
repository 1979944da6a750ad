package dbtest

import (
	"reflect"
	"time"

	"sluice/access/actions"
	"sluice/database"
	"sluice/database/whole"
)

var taskChecks = []Check{
	NewCheck("tasks/life", taskLife),
	NewCheck("tasks/served", taskServed),
	NewCheck("tasks/racing", taskRacing),
}

// tasks ends the check unless these tasks are listed, by another handle.
func (p *Probe) tasks(want ...database.Task) {
	got, err := p.Open().ListTasks(p.Ctx)
	p.OK(err, "list of tasks")
	p.Must(len(got) == len(want) && (len(want) == 0 || reflect.DeepEqual(got, want)), "tasks %+v, want %+v", got, want)
}

// change changes a task, and returns the time of the change.
func (p *Probe) change(s whole.Database, name string, change func(now time.Time, t *database.Task)) (at time.Time) {
	_, err := s.ChangeTask(p.Ctx, name, func(now time.Time, t *database.Task) (*actions.Act, error) {
		at = now
		change(now, t)
		return nil, nil
	})
	p.OK(err, "change of %s", name)
	return at
}

func want(now time.Time, t *database.Task)  { t.Wanted = now }
func pause(now time.Time, t *database.Task) { t.Paused, t.Wanted = now, time.Time{} }

func taskLife(p *Probe) {
	p.tasks()
	sweep := database.Task{Name: "sweep", Wanted: p.change(p.Store, "sweep", want)}
	p.Clock.Advance(time.Minute)
	purge := database.Task{Name: "purge", Paused: p.change(p.Open(), "purge", pause)}
	p.tasks(purge, sweep)
	p.Must(purge.Paused.Equal(sweep.Wanted.Add(time.Minute)), "the changes have the times %s and %s", sweep.Wanted, purge.Paused)

	_, err := p.Store.ChangeTask(p.Ctx, "purge", func(_ time.Time, t *database.Task) (*actions.Act, error) {
		p.Must(reflect.DeepEqual(*t, purge), "change gets %+v, want %+v", *t, purge)
		t.Paused = time.Time{}
		return nil, errDisagree
	})
	p.Is(err, errDisagree, "refused change")
	p.tasks(purge, sweep)

	// Progress leaves pauses and requests alone, and a change leaves progress alone.
	sweep.Running, purge.Next = sweep.Wanted.Add(time.Hour), sweep.Wanted.Add(2*time.Hour)
	sweep.Last = database.TaskRun{Began: sweep.Wanted, Took: 3*time.Second + 1, Count: 1 << 40, Error: "7 failures\x00", Node: "a (--addr :80)"}
	p.OK(p.Store.PublishTasks(p.Ctx, []database.TaskProgress{
		{Name: "sweep", Running: sweep.Running, Last: &sweep.Last}, {Name: "purge", Next: purge.Next},
	}), "progress")
	p.tasks(purge, sweep)
	purge.Paused = time.Time{}
	p.change(p.Store, "purge", func(_ time.Time, t *database.Task) { t.Paused = time.Time{} })
	sweep.Running = time.Time{}
	p.OK(p.Store.PublishTasks(p.Ctx, []database.TaskProgress{{Name: "sweep"}}), "progress without a run")
	p.Reopen()
	p.tasks(purge, sweep)
}

// taskServed: a run takes the start that it served, and no other one.
func taskServed(p *Probe) {
	task := database.Task{Name: "heal", Wanted: p.change(p.Store, "heal", want)}
	served := func(at time.Time) {
		p.OK(p.Store.PublishTasks(p.Ctx, []database.TaskProgress{{Name: "heal", Served: at}, {Name: "purge", Served: at}}), "progress")
	}
	purge := database.Task{Name: "purge"}
	for _, other := range []time.Time{{}, task.Wanted.Add(-time.Microsecond), task.Wanted.Add(time.Microsecond)} {
		served(other)
		p.tasks(task, purge)
	}
	first := task.Wanted
	served(first)
	p.tasks(database.Task{Name: "heal"}, purge)
	p.Clock.Advance(time.Second)
	task.Wanted = p.change(p.Store, "heal", want)
	served(first) // again, because the response was lost
	p.tasks(task, purge)
}

// taskRacing has changes and progress of one task compete: each change sees the one before it.
func taskRacing(p *Probe) {
	handles := []whole.Database{p.Store, p.Open()}
	base := p.Store.Now().Truncate(time.Microsecond)
	const racers = 12
	for _, err := range Race(racers, func(i int) error {
		if i%3 == 0 {
			return handles[i%2].PublishTasks(p.Ctx, []database.TaskProgress{{Name: "scrub", Running: base}})
		}
		_, err := handles[i%2].ChangeTask(p.Ctx, "scrub", func(_ time.Time, t *database.Task) (*actions.Act, error) {
			if t.Wanted.IsZero() {
				t.Wanted = base
			}
			t.Wanted = t.Wanted.Add(time.Second)
			return nil, nil
		})
		return err
	}) {
		p.OK(err, "racing change")
	}
	p.tasks(database.Task{Name: "scrub", Running: base, Wanted: base.Add(racers * 2 / 3 * time.Second)})
}
