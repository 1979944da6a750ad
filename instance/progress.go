package instance

import "sync"

// CloneOptions are the options of Clone. The functions are never called concurrently, and may be
// nil.
type CloneOptions struct {
	// Progress is called when a phase begins, after each object or batch of rows, and when the
	// phase has ended.
	Progress func(Progress)
	// Damaged is called for each object in the source that is missing or does not match its
	// checksums.
	Damaged func(name string, err error)
}

// Progress is how far a phase of Clone or of Check is.
type Progress struct {
	Phase       Phase
	Done, Total int64 // in the phase's unit; Done may exceed Total if rows were added, or if it is 0
	Ended       bool  // the last call of this phase
}

// Phase is a part of an operation.
type Phase string

// The phases of Clone, in their order.
const (
	PhaseBytes    Phase = "bytes"    // counted in bytes
	PhaseMetadata Phase = "metadata" // counted in rows
)

// The phases of Check before PhaseBytes, in their order.
const (
	PhasePages   Phase = "pages"   // counted in tables, or in indexes
	PhaseRows    Phase = "rows"    // counted in rows; the total is not known
	PhaseRepair  Phase = "repairs" // counted in kinds of repairs; if they are wanted
	PhaseBooks   Phase = "books"   // one step
	PhaseBodies  Phase = "bodies"  // counted in bodies; the total is not known
	PhaseObjects Phase = "objects" // counted in objects
)

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

// add reports that n more units are done.
func (r *reporter) add(n int64) { r.update(func(p *Progress) { p.Done += n }) }

// end ends the phase. It has no effect if none has begun.
func (r *reporter) end() { r.update(func(p *Progress) { p.Ended = true }) }

func (r *reporter) update(change func(*Progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.now)
	if r.now.Phase != "" {
		r.opt.Progress(r.now)
	}
}

func (r *reporter) damaged(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opt.Damaged(name, err)
}
