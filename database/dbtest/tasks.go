package dbtest

import (
	"reflect"
	"time"

	"sluice/access/actions"
	"sluice/database"
	"sluice/database/whole"
	"sluice/metastore"
)

var taskChecks = []Check{
	NewCheck("tasks/life", taskLife),
	NewCheck("tasks/served", taskServed),
	NewCheck("tasks/racing", taskRacing),
	NewCheck("tasks/waiting", taskWaiting),
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

// taskWaiting begins generations, which pause the tasks versions and rules with a reason once an
// account has something for them. They delete nothing before they are resumed, whoever calls.
func taskWaiting(p *Probe) {
	p.OK(p.Store.BeginGeneration(p.Ctx, 1, 2, 0, database.KeptObjects{}, "a"), "a generation without versions")
	p.tasks()
	keeps := func(most int) {
		Value(p.Store.SetKeeping(p.Ctx, "a", func(k *metastore.Keeping) (*actions.Act, error) {
			k.State, k.For, k.Most = metastore.KeepOn, time.Hour, most
			return nil, nil
		}))
	}
	keeps(0)
	for range 5 {
		p.Put("a", "n")
	}
	p.Clock.Advance(time.Hour)
	p.Put("a", "n")
	p.Put("a", "n")
	keeps(1)
	p.Clock.Advance(time.Minute)
	due := func(want int64) {
		versions, bytes, err := p.Open().CountDue(p.Ctx, 3)
		p.OK(err, "what is due")
		p.Must(versions == want && bytes == 100*want, "%d versions with %d bytes are due, want %d", versions, bytes, want)
	}
	due(3) // at most
	waiting := database.Task{Name: "versions", Paused: p.change(p.Store, "versions", want), Reason: "the instance was restored"}
	p.OK(p.Open().BeginGeneration(p.Ctx, 2, 3, 0, database.KeptObjects{}, waiting.Reason), "a generation")
	p.tasks(waiting)
	p.change(p.Store, "versions", func(_ time.Time, t *database.Task) { p.Equal(*t, waiting, "the state for a change") })
	p.Clock.Advance(2 * metastore.ExpiredBlobGrace)
	for range 2 {
		p.Must(Value(p.Store.PurgeVersions(p.Ctx, 100))+Value(p.Store.ApplyKeeping(p.Ctx, 100)) == 0, "versions are deleted while their task is paused")
		p.Purge()
		due(3)
		p.Reopen()
	}
	Value(p.Store.SetRules(p.Ctx, "a", func(rules *[]metastore.Rule) (*actions.Act, error) {
		*rules = []metastore.Rule{{ID: "r", ExpireDays: 1}}
		return nil, nil
	}))
	p.OK(p.Store.BeginGeneration(p.Ctx, 3, 4, 0, database.KeptObjects{}, "another"), "a generation in a pause")
	rules := database.Task{Name: "rules", Paused: p.Clock.Now(), Reason: "another"}
	waiting.Reason = rules.Reason
	p.tasks(rules, waiting)
	p.Must(p.ruled() == 0, "a rule is applied while its task is paused")
	resume := func(_ time.Time, t *database.Task) { t.Paused, t.Reason = time.Time{}, "" }
	p.change(p.Store, "versions", resume)
	p.tasks(rules, database.Task{Name: "versions"})
	for _, want := range []int{3, 3, 0} {
		p.Must(Value(p.Store.PurgeVersions(p.Ctx, 3)) == want, "not 3 versions and 3 more are deleted")
	}
	p.Must(Value(p.Store.ApplyKeeping(p.Ctx, 100)) > 0, "the setting is not applied")
	due(0)
	p.change(p.Store, "rules", resume)
	p.Must(p.ruled() == 1, "the rule is not applied")
}

// ruled applies rules, and returns how many things they have removed.
func (p *Probe) ruled() (removed int64) {
	for more := true; more; {
		n, left, err := p.Store.ApplyRules(p.Ctx, 100)
		p.OK(err, "rules")
		removed, more = removed+n, left
	}
	return removed
}
