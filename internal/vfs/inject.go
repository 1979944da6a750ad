package vfs

import (
	"fmt"
	"sync/atomic"
)

// Moment says when an injected fault strikes.
type Moment string

// The moments of a fault.
const (
	// Before: the operation fails and has no effect.
	Before Moment = "before"
	// After: the operation is carried out and then reports the fault, whatever
	// came of it.
	After Moment = "after"
	// Short: a write stores half of its bytes and fails; other operations fail
	// without effect.
	Short Moment = "short"
)

// Fault makes one operation of a file system fail, the one with the number
// Nth, counted from 0 over all operations that Match accepts. The zero Match
// accepts all.
type Fault struct {
	Nth    int64
	Moment Moment
	Err    error // what the operation reports, for example syscall.ENOSPC
	Match  func(Op) bool

	seen  atomic.Int64
	fired atomic.Bool
}

// Fired reports whether the fault has struck. A sweep over Nth is finished by
// the first run in which it has not.
func (f *Fault) Fired() bool { return f.fired.Load() }

// Inject is fsys with the fault in it.
func Inject(fsys FS, f *Fault) FS {
	return Intercept(fsys, func(op *Op, do func() error) error {
		if f.Match != nil && !f.Match(*op) {
			return do()
		}
		if f.seen.Add(1)-1 != f.Nth {
			return do()
		}
		f.fired.Store(true)
		fault := fmt.Errorf("injected %s %s: %w", f.Moment, op, f.Err)
		switch {
		case f.Moment == After:
			// What came of it, nobody hears.
			_ = do()
		case f.Moment == Short && op.Kind == KindWrite:
			op.Len /= 2
			if err := do(); err != nil {
				return err
			}
		}
		return fault
	})
}
