package vfstest

import (
	"fmt"
	"sync/atomic"

	"sluice/internal/vfs"
)

// Moment defines how an injected fault affects its operation.
type Moment string

// A fault's moments.
const (
	// Before means that the operation fails without effect.
	Before Moment = "before"
	// After means that the operation is performed and reports the fault in place of its result.
	After Moment = "after"
	// Short means that a write stores half of its bytes and fails; other operations fail without
	// effect.
	Short Moment = "short"
)

// Fault makes one operation on a file system fail: the Nth that Match accepts, counted from 0. A
// nil Match accepts all.
type Fault struct {
	Nth    int64
	Moment Moment
	Err    error // the operation's error, for example syscall.ENOSPC
	Match  func(Op) bool

	seen  atomic.Int64
	fired atomic.Bool
}

// Fired reports whether the fault has occurred. A sweep over Nth ends with the first run in which
// it has not.
func (f *Fault) Fired() bool { return f.fired.Load() }

// Inject returns fsys with the fault.
func Inject(fsys vfs.FS, f *Fault) vfs.FS {
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
			// The result is replaced by the fault.
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
