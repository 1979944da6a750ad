package bytetest

import (
	"context"

	"sluice/bytestore"
)

// Harness provides a check with its store.
type Harness struct {
	// Open returns a handle for the store, which is empty at first. Each call returns another
	// handle for the same data. If an implementation permits only one handle at a time, Open must
	// close the previous one. Checks use only the latest handle.
	Open func() (bytestore.Store, error)
	// Crash simulates a power failure: data that is not durable is lost, and existing handles have
	// no further effect. It may be called during a Put, even from a read of its source. The next
	// call is Open. If Crash is nil, the checks that need it do not run.
	Crash func() error
}

// Check tests a promise that the contract makes.
type Check struct {
	Name string
	// NeedsCrash reports whether the check uses Harness.Crash.
	NeedsCrash bool
	// Run returns nil if the store keeps the promise, and otherwise an error that describes the
	// violation. Each run needs a new harness.
	Run func(ctx context.Context, h Harness) error
}
