package instance

import "sync"

// Progress is how far a phase of Backup, Restore or Check is.
type Progress struct {
	Phase       Phase
	Done, Total int64 // in the phase's unit; Done may exceed Total if rows were added, or if it is 0
	Ended       bool  // the last call of this phase
}

// Phase is a part of an operation.
type Phase string

// The phases of Restore, in their order. Backup has them in the reverse order.
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

// reporter calls the functions for progress and for damage, one at a time.
type reporter struct {
	onProgress func(Progress)
	onDamage   func(name string, err error)

	mu  sync.Mutex
	now Progress
}

// newReporter returns a reporter that calls these functions, which may be nil.
func newReporter(progress func(Progress), damaged func(name string, err error)) *reporter {
	if progress == nil {
		progress = func(Progress) {}
	}
	if damaged == nil {
		damaged = func(string, error) {}
	}
	return &reporter{onProgress: progress, onDamage: damaged}
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
		r.onProgress(r.now)
	}
}

func (r *reporter) damaged(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onDamage(name, err)
}
