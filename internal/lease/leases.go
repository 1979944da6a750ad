package lease

import (
	"context"
	"time"
)

// Leases elect one of several nodes for work that must not be done twice. They are judged by
// the engine's clock alone, independent of the clocks of the nodes; an embedded engine uses the
// store's clock.
type Leases interface {
	// Lease acquires or renews the lease of that name until ttl from now, and reports
	// whether holder has it. It can be acquired if it was never held, has expired, or is
	// held by holder. While ttl has not passed since before the call, no other holder
	// acquires it. If the result is false or an error, holder must act as if it did not have
	// the lease. With a ttl of 0 or less a lease of holder is released, and the result is
	// false.
	Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error)
}
