package nodes

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/e2e"
	"sluice/wire"
)

// listedNodes returns the nodes that a node lists.
func listedNodes(s *e2e.Server) []wire.Node {
	var list wire.NodeList
	s.Must(200, "GET", "/v1/admin/nodes", nil).Decode(s.T, &list)
	return list.Nodes
}

// listedTask returns a task as a node lists it.
func listedTask(s *e2e.Server, name string) wire.Task {
	var list wire.TaskList
	s.Must(200, "GET", "/v1/admin/tasks", nil).Decode(s.T, &list)
	return list.Tasks[slices.IndexFunc(list.Tasks, func(t wire.Task) bool { return t.Task == name })]
}

// leaderOf returns the leader's place among the nodes, or -1.
func leaderOf(nodes []*e2e.Server) int {
	return slices.IndexFunc(nodes, func(s *e2e.Server) bool {
		return slices.ContainsFunc(listedNodes(nodes[len(nodes)-1]), func(n wire.Node) bool {
			return n.Leader && strings.Contains(n.Name, s.Host)
		})
	})
}

// TestTasksAndNodesOfAnInstance starts and pauses tasks at nodes that do not lead, and the pause
// outlives the leader. Nodes list each other: a draining one with its reason, and a killed one
// until its record expires.
// Invariants 202, 203.
func TestTasksAndNodesOfAnInstance(t *testing.T) {
	t.Parallel()
	c := e2e.NewCluster(t, e2e.Options{Dirty: true, Flags: []string{"--drain-wait", "5m", "--admin-addr", "127.0.0.1:0"}})
	c.Start(3)
	e2e.Await(t, "three nodes are not ready, with a leader", func() bool {
		list := listedNodes(c.Nodes[0])
		return len(list) == 3 && leaderOf(c.Nodes) >= 0 && !slices.ContainsFunc(list, func(n wire.Node) bool { return !n.Ready || n.Version == "" || n.Since.IsZero() })
	})
	at := leaderOf(c.Nodes)
	leader, others := c.Nodes[at], slices.Concat(c.Nodes[:at], c.Nodes[at+1:])

	others[0].Must(200, "POST", "/v1/admin/tasks/sweep/start", nil)
	e2e.Await(t, "a start at another node is not obeyed", func() bool {
		sweep := listedTask(others[1], "sweep")
		return sweep.Wanted.IsZero() && sweep.Last != nil
	})
	if last := listedTask(others[0], "sweep").Last; !strings.Contains(last.Node, leader.Host) || last.Error != "" {
		t.Errorf("the run is %+v, and %s leads", last, leader.Host)
	}
	e2e.CheckProblem(t, others[0].Do("POST", "/v1/admin/tasks/scrub/pause", nil), 409, "conflict")
	others[0].Must(200, "POST", "/v1/admin/tasks/purge/pause", nil)
	paused := func(s *e2e.Server, n int) bool {
		return strings.Contains(s.MetricsOf(), fmt.Sprintf("\nsluice_task_paused{task=\"purge\"} %d\n", n))
	}
	e2e.Await(t, "a pause at another node is not obeyed", func() bool { return paused(leader, 1) })

	others[1].Signal(syscall.SIGTERM)
	e2e.Await(t, "a draining node is not listed with its reason", func() bool {
		return slices.ContainsFunc(listedNodes(others[0]), func(n wire.Node) bool {
			return strings.Contains(n.Name, others[1].Host) && !n.Ready && n.Reason == "it is draining"
		})
	})
	runs := leader.Counter(`sluice_task_runs_total{task="sweep"}`)
	leader.Kill()
	e2e.Await(t, "the next leader does not know of the pause", func() bool { return paused(others[0], 1) || paused(others[1], 1) })
	e2e.Await(t, "the killed node stays listed", func() bool { return len(listedNodes(others[0])) == 2 })
	others[0].Must(200, "POST", "/v1/admin/tasks/purge/resume", nil)
	e2e.Await(t, "the pause does not end", func() bool { return paused(others[0], 0) && paused(others[1], 0) })
	for _, s := range others {
		runs += s.Counter(`sluice_task_runs_total{task="sweep"}`)
	}
	if runs != 1 {
		t.Errorf("%d sweeps were made for one start", runs)
	}
	for _, s := range others { // which would wait for five minutes
		s.Kill()
	}
}

// TestTasksOfALocalInstance does it without other nodes.
func TestTasksOfALocalInstance(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	e2e.Await(t, "the node does not list itself", func() bool {
		list := listedNodes(s)
		return len(list) == 1 && list[0].Ready && list[0].Leader && list[0].Version != ""
	})
	s.Must(200, "POST", "/v1/admin/tasks/sweep/pause", nil)
	e2e.CheckProblem(t, s.Do("POST", "/v1/admin/tasks/sweep/start", nil), 409, "conflict")
	s.Stop()
	s.Restart()
	if listedTask(s, "sweep").Paused.IsZero() {
		t.Error("a restart has ended the pause")
	}
	s.Must(200, "POST", "/v1/admin/tasks/sweep/resume", nil)
	s.Must(200, "POST", "/v1/admin/tasks/sweep/start", nil)
	e2e.Await(t, "a start is not obeyed", func() bool { return listedTask(s, "sweep").Last != nil })
}
