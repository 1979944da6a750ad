package instance

import "sync"

// reporter calls the functions of CloneOptions, one at a time.
type reporter struct {
	opt CloneOptions
	mu  sync.Mutex
	now Progress
}

func newReporter(opt CloneOptions) *reporter {
	if opt.Progress == nil {
		opt.Progress = func(Progress) {}
	}
	if opt.Damaged == nil {
		opt.Damaged = func(string, error) {}
	}
	return &reporter{opt: opt}
}

// begin starts a phase of total units.
func (r *reporter) begin(phase Phase, total int64) {
	r.update(func(p *Progress) { *p = Progress{Phase: phase, Total: total} })
}

// add reports n more units of the phase as done.
func (r *reporter) add(n int64) { r.update(func(p *Progress) { p.Done += n }) }

// end ends the phase.
func (r *reporter) end() { r.update(func(p *Progress) { p.Ended = true }) }

func (r *reporter) update(change func(*Progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.now)
	r.opt.Progress(r.now)
}

func (r *reporter) damaged(key string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opt.Damaged(key, err)
}
