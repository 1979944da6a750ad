package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/access/actions"
	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/internal/task"
	"sluice/test/testenv"
)

// faultyTasks is a database that can be unavailable.
type faultyTasks struct {
	taskStore
	unavailable atomic.Bool
	loses       atomic.Bool // each second publication without effect, the others with their response lost
	published   atomic.Int64
}

func (s *faultyTasks) ListTasks(ctx context.Context) ([]database.Task, error) {
	if s.unavailable.Load() {
		return nil, database.ErrUnavailable
	}
	return s.taskStore.ListTasks(ctx)
}

func (s *faultyTasks) PublishTasks(ctx context.Context, list []database.TaskProgress) (err error) {
	loses := s.loses.Load()
	if n := s.published.Add(1); !loses || n%2 == 0 {
		err = s.taskStore.PublishTasks(ctx, list)
	}
	if loses {
		err = database.ErrUnavailable
	}
	return err
}

// ask changes a task as an operator does at any node.
func (s *faultyTasks) ask(t *testing.T, name task.Name, change func(now time.Time, t *database.Task)) {
	t.Helper()
	testenv.Must(s.ChangeTask(t.Context(), string(name), func(now time.Time, task *database.Task) (*actions.Act, error) {
		change(now, task)
		return nil, nil
	}))(t)
}

// state returns a task's state.
func (s *faultyTasks) state(t *testing.T, name task.Name) database.Task {
	t.Helper()
	for _, one := range testenv.Must(s.ListTasks(t.Context()))(t) {
		if one.Name == string(name) {
			return one
		}
	}
	t.Fatalf("%s has no state", name)
	return database.Task{}
}

func wantTask(now time.Time, t *database.Task)  { t.Wanted = now }
func pauseTask(now time.Time, t *database.Task) { t.Paused, t.Wanted = now, time.Time{} }

// leadingNode is a node that leads until stop, with tasks that take a minute.
type leadingNode struct {
	control *task.Control
	runs    atomic.Int64 // that have ended without being interrupted
	works   atomic.Bool  // whether it knows the pauses
	stop    func()
}

func lead(t *testing.T, store taskStore, name string) *leadingNode {
	n := &leadingNode{}
	n.control = task.NewControl(func(task.Run) { n.runs.Add(1) })
	for _, one := range []task.Name{task.Sweep, task.Purge} {
		n.control.Define(one, func(error) bool { return false }, func(ctx context.Context) (int64, error) {
			return 7, task.Wait(ctx, time.Minute)
		})
	}
	board := newTaskBoard(store, n.control, name, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		if board.open(ctx) {
			n.works.Store(true)
			board.run(ctx)
		}
	})
	n.stop = func() { cancel(); work.Wait() }
	t.Cleanup(n.stop)
	return n
}

// TestStartSurvivesTheLeader: a start is obeyed within seconds, by one run, and it is neither lost
// nor repeated when a leader dies before the run or in it, or the database's responses are lost.
// Invariant 203.
func TestStartSurvivesTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, meta *sqlstore.Store) {
		store := &faultyTasks{taskStore: meta}
		store.ask(t, task.Sweep, wantTask) // no node leads
		first := lead(t, store, "first")
		time.Sleep(3 * time.Second)
		if now := store.state(t, task.Sweep); now.Running.IsZero() || now.Wanted.IsZero() {
			t.Errorf("after seconds: %+v", now)
		}
		first.stop()
		second := lead(t, store, "second")
		time.Sleep(10 * time.Second)
		store.loses.Store(true)
		time.Sleep(time.Minute)
		store.loses.Store(false)
		time.Sleep(5 * time.Second)
		now := store.state(t, task.Sweep)
		if now.Last.Node != "second" || now.Last.Count != 7 || now.Last.Took != time.Minute || !now.Running.IsZero() || !now.Wanted.IsZero() {
			t.Errorf("after the run: %+v", now)
		}
		time.Sleep(time.Hour)
		second.stop()
		third := lead(t, store, "third")
		time.Sleep(time.Hour)
		testenv.Equal(t, [3]int64{first.runs.Load(), second.runs.Load(), third.runs.Load()}, [3]int64{0, 1, 0}, "runs")
		if idle := store.published.Load(); idle > 20 {
			t.Errorf("%d times something was published", idle)
		}
	})
}

// TestPauseSurvivesTheLeader: a pause is obeyed within seconds, and by the next leader from its
// first moment, even if it cannot read it yet. A task that protects data runs on.
// Invariant 202.
func TestPauseSurvivesTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, meta *sqlstore.Store) {
		store := &faultyTasks{taskStore: meta}
		first := lead(t, store, "first")
		go first.control.Do(t.Context(), task.Purge)
		time.Sleep(time.Second)
		store.ask(t, task.Purge, pauseTask)
		store.ask(t, task.Scrub, pauseTask)
		time.Sleep(3 * time.Second)
		for name, want := range map[task.Name]bool{task.Purge: true, task.Scrub: false, task.Sweep: false} {
			if paused, _ := first.control.Paused(name); paused != want {
				t.Errorf("%s is paused: %t", name, paused)
			}
		}
		first.stop()
		store.unavailable.Store(true)
		second := lead(t, store, "second")
		time.Sleep(time.Minute)
		testenv.Equal(t, second.works.Load(), false, "the next leader works, without knowing of the pause")
		store.unavailable.Store(false)
		time.Sleep(2 * time.Second)
		if paused, _ := second.control.Paused(task.Purge); !paused {
			t.Error("the next leader does not know of the pause")
		}
		second.control.Do(t.Context(), task.Purge)
		store.ask(t, task.Purge, func(_ time.Time, t *database.Task) { t.Paused = time.Time{} })
		time.Sleep(3 * time.Second)
		second.control.Do(t.Context(), task.Purge)
		testenv.Equal(t, first.runs.Load()+second.runs.Load(), 1, "runs")
	})
}

// TestPublishedErrors: the last run's error is published, cut to its bound.
func TestPublishedErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, meta *sqlstore.Store) {
		store := &faultyTasks{taskStore: meta}
		n := lead(t, store, "node")
		n.control.Note(task.Run{Task: task.Settle, Began: time.Now(), Err: errors.New(string(make([]byte, 2000)))})
		time.Sleep(3 * time.Second)
		testenv.Equal(t, len(store.state(t, task.Settle).Last.Error), 1000, "bytes of the error")
	})
}
