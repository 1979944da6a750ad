package fullnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
)

// kept are processes that wait for the next test.
var kept struct {
	sync.Mutex
	keeps bool // Keep's tests run
	idle  []*process
}

// Keep returns a package's tests such that a fullnode's process serves one test after another, and
// ends after the last. Its start takes longer than most tests. Keep is for TestMain.
func Keep(m interface{ Run() int }) interface{ Run() int } { return keeping{m} }

type keeping struct{ tests interface{ Run() int } }

// Run runs the tests.
func (k keeping) Run() int {
	kept.Lock()
	kept.keeps = true
	kept.Unlock()
	code := k.tests.Run()
	kept.Lock()
	defer kept.Unlock()
	var errs []error
	for _, p := range kept.idle {
		errs = append(errs, p.stop())
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// takeProcess returns a process with a fullnode that knows nothing but opt: one that was left, or a
// new one.
func takeProcess(ctx context.Context, opt any) (*process, error) {
	kept.Lock()
	var p *process
	if last := len(kept.idle) - 1; last >= 0 {
		p, kept.idle = kept.idle[last], kept.idle[:last]
	}
	kept.Unlock()
	if p == nil {
		return startProcess(opt)
	}
	return p, p.do(ctx, 0, "reset", opt, nil)
}

// leave keeps the process for another test, or stops it. One with several fullnodes, or with one
// that is killed, is stopped.
func (p *process) leave() error {
	kept.Lock()
	defer kept.Unlock()
	if !kept.keeps || p.changed.Load() {
		return p.stop()
	}
	kept.idle = append(kept.idle, p)
	return nil
}
