package vfstest

import (
	"sluice/internal/vfs"
	"sluice/test/fault"
)

// Fault is a fault of an operation on a file system. A torn write stores half of its bytes.
type Fault = fault.Point[Op]

// Inject returns fsys with the fault.
func Inject(fsys vfs.FS, f *Fault) vfs.FS {
	return Intercept(fsys, func(op *Op, do func() error) error {
		kind := f.Next(*op)
		if kind == fault.None {
			return do()
		}
		err := f.Error(kind, *op)
		if kind == fault.Tear && op.Kind == KindWrite {
			op.Len /= 2
			if err := do(); err != nil {
				return err
			}
		}
		return kind.Do(err, do)
	})
}
