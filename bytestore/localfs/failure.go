package localfs

import (
	"fmt"
	"sync/atomic"

	"sluice/bytestore"
)

// ErrSyncFailed is returned by a Put if its fsync failed, and by every later Put until the Store is
// reopened. Objects from successful Puts are not affected. It wraps bytestore.ErrOverloaded: once
// the store was reopened, the same Put may succeed.
var ErrSyncFailed = fmt.Errorf("localfs: an fsync failed; the store accepts no more objects until it is reopened: %w", bytestore.ErrOverloaded)

// failure is the first fsync's failure.
type failure struct {
	first   atomic.Pointer[error]
	stopped chan struct{} // closed once first is set
}

func newFailure() *failure { return &failure{stopped: make(chan struct{})} }

// err returns ErrSyncFailed with its cause after an fsync has failed, and nil otherwise.
func (f *failure) err() error {
	if first := f.first.Load(); first != nil {
		return fmt.Errorf("%w: %w", ErrSyncFailed, *first)
	}
	return nil
}

// set records the first failure, and returns the error for the Put that needed the fsync.
func (f *failure) set(err error) error {
	if f.first.CompareAndSwap(nil, &err) {
		close(f.stopped)
	}
	return fmt.Errorf("%w: %w", ErrSyncFailed, err)
}
