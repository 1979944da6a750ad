package admin_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/access/actions"
	"sluice/admin"
	"sluice/database"
	"sluice/internal/task"
	"sluice/metastore"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestTasksAreChanged: each task is started or paused if that may be, once, and recorded; a task
// that protects data or payments is never paused.
// Invariant 202.
func TestTasksAreChanged(t *testing.T) {
	onBoth(t, func(t *testing.T, o *office) {
		type change func(context.Context, admin.By, string) (wire.Task, error)
		try := func(do change, name string, want error) (out wire.Task) {
			t.Helper()
			out, err := do(t.Context(), operator, name)
			testenv.Is(t, err, want, "%s", name)
			return out
		}
		if list := testenv.Must(o.Tasks(t.Context(), operator))(t); len(list.Tasks) != len(task.Names) {
			t.Errorf("tasks of a new instance: %+v", list)
		}
		try(o.PauseTask, "unknown", admin.ErrNotFound)
		var pausable, startable string
		for _, one := range testenv.Must(o.Tasks(t.Context(), operator))(t).Tasks {
			name, may := one.Task, map[bool]error{false: admin.ErrConflict}
			if one.Pausable {
				pausable += name + " "
			}
			if one.Startable {
				startable += name + " "
			}
			first := try(o.StartTask, name, may[one.Startable])
			testenv.Equal(t, try(o.StartTask, name, may[one.Startable]).Wanted, first.Wanted, "a start while one is pending")
			testenv.Equal(t, first.Wanted.IsZero(), !one.Startable, "wanted")
			paused := try(o.PauseTask, name, may[one.Pausable])
			if !one.Pausable {
				continue
			}
			if paused.Paused.IsZero() || !paused.Wanted.IsZero() {
				t.Errorf("a paused task: %+v", paused)
			}
			testenv.Equal(t, try(o.PauseTask, name, nil).Paused, paused.Paused, "a pause of a paused task")
			try(o.StartTask, name, admin.ErrConflict)
			testenv.Equal(t, try(o.ResumeTask, name, nil).Paused.IsZero(), true, "resumed")
			try(o.ResumeTask, name, nil)
		}
		testenv.Equal(t, pausable, "free_garbage purge versions rules changes webhooks sweep census ", "tasks that may be paused")
		testenv.Equal(t, startable, "free_garbage purge versions rules changes sweep scrub compare heal census ", "tasks that may be started")
		made := map[string]int{}
		var last actions.Action
		for _, a := range testenv.Must(o.store.ListActions(t.Context(), "", 100))(t) {
			made[a.Name]++
			last = a
		}
		testenv.Equal(t, fmt.Sprint(made), "map[task.pause:8 task.resume:8 task.start:10]", "recorded actions")
		if last.Subject != "free_garbage" || last.From != operator.From || string(last.Before) != "{}" || len(last.After) < 20 {
			t.Errorf("the first action: %+v, %s, %s", last, last.Before, last.After)
		}
	})
}

// TestTasksAndNodesAreShown: administrators see all that leader and nodes have published.
func TestTasksAndNodesAreShown(t *testing.T) {
	o := open(t)
	now := o.store.Now()
	run := &database.TaskRun{Began: now, Took: 1_234_567_890, Count: 7, Error: "no", Node: "a"}
	testenv.OK(t, o.store.PublishTasks(t.Context(), []database.TaskProgress{{Name: "sweep", Running: now, Next: now, Last: run}}))
	for _, one := range testenv.Must(o.Tasks(t.Context(), operator))(t).Tasks {
		if one.Task != "sweep" {
			continue
		}
		testenv.Equal(t, *one.Last, wire.TaskRun{Began: one.Running, Seconds: 1.234, Handled: 7, Error: "no", Node: "a"}, "the last run")
		testenv.Equal(t, one.Next.IsZero(), false, "the next run")
	}
	node := database.Node{Name: "a", Version: "1.2.3", Reason: "it is draining", Since: now, Leads: true}
	testenv.OK(t, o.store.Join(t.Context(), "id", "", node, 1<<40, func([]string) error { return nil }))
	nodes := testenv.Must(o.Nodes(t.Context(), operator))(t).Nodes
	testenv.Equal(t, len(nodes), 1, "nodes")
	if n := nodes[0]; n.Name != "a" || n.Version != "1.2.3" || n.Ready || n.Reason != node.Reason || !n.Leader || n.Since.IsZero() {
		t.Errorf("the node: %+v", n)
	}
}

// TestWaitingTaskIsShown: a task that the store has paused is shown with the reason and the number
// of due versions, is not started, and its reason is in the record of its end.
// Invariant 215.
func TestWaitingTaskIsShown(t *testing.T) {
	onBoth(t, func(t *testing.T, o *office) {
		put := func() {
			t.Helper()
			b := metastore.Blob{Account: "a", Name: "n", Content: metastore.NewContentID(o.store.Now()), Size: 7}
			testenv.Must(o.store.CommitBlob(t.Context(), b, []metastore.Extent{{Size: 7, Blocks: []uint32{1}, Body: []byte("content")}}, nil))(t)
		}
		testenv.Must(o.store.SetKeeping(t.Context(), "a", func(k *metastore.Keeping) (*actions.Act, error) {
			k.State, k.For = metastore.KeepOn, time.Microsecond
			return nil, nil
		}))(t)
		put()
		put()
		testenv.OK(t, o.store.BeginGeneration(t.Context(), 1, 2, 0, database.KeptObjects{}, "it was restored"))
		shown := func() wire.Task {
			t.Helper()
			list := testenv.Must(o.Tasks(t.Context(), operator))(t).Tasks
			return list[slices.IndexFunc(list, func(one wire.Task) bool { return one.Task == "versions" })]
		}
		if one := shown(); one.Paused.IsZero() || one.Reason != "it was restored" || one.Due == nil || *one.Due != (wire.TaskDue{Versions: 1, Bytes: 7}) {
			t.Errorf("the task is %+v", one)
		}
		_, err := o.StartTask(t.Context(), operator, "versions")
		if testenv.Is(t, err, admin.ErrConflict, "a start"); !strings.Contains(err.Error(), "because it was restored") {
			t.Errorf("a start: %v", err)
		}
		testenv.Equal(t, testenv.Must(o.PauseTask(t.Context(), operator, "versions"))(t).Reason, "it was restored", "the reason after a pause")
		one := testenv.Must(o.ResumeTask(t.Context(), operator, "versions"))(t)
		if one.Reason != "" || one.Due != nil || !one.Paused.IsZero() || !reflect.DeepEqual(one, shown()) {
			t.Errorf("the resumed task is %+v", one)
		}
		last := testenv.Must(o.store.ListActions(t.Context(), "", 1))(t)[0]
		if last.Name != "task.resume" || !strings.Contains(string(last.Before), `"reason":"it was restored"`) || string(last.After) != "{}" {
			t.Errorf("the record is %+v", last)
		}
	})
}
