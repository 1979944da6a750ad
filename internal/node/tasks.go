package node

import (
	"sync"
	"time"

	"sluice/internal/task"
)

// taskLog holds what the runs of each task were. Its methods may be called concurrently.
type taskLog struct {
	mu    sync.Mutex
	tasks map[task.Name]*taskHistory
}

// taskHistory are the runs of a task on this node. It is zero before the first run.
type taskHistory struct {
	runs, failures int64
	handled        int64
	last           task.Run
	succeeded      time.Time // end of the last run without an error; zero: none
}

func newTaskLog() *taskLog {
	l := &taskLog{tasks: map[task.Name]*taskHistory{}}
	for _, name := range task.Names {
		l.tasks[name] = &taskHistory{}
	}
	return l
}

// add adds a run.
func (l *taskLog) add(run task.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.tasks[run.Task]
	h.runs++
	h.handled += run.Count
	h.last = run
	if run.Err != nil {
		h.failures++
	} else {
		h.succeeded = run.Began.Add(run.Took)
	}
}

// of returns the runs of a task.
func (l *taskLog) of(name string) taskHistory {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *l.tasks[task.Name(name)]
}
