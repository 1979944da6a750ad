package metastore

import (
	"context"
	"time"
)

// Leases let one of many nodes at a time do what is not to be done twice. They
// are judged by the engine's clock alone, whatever the clocks of the nodes say;
// an embedded engine has the store's clock.
type Leases interface {
	// Lease takes or renews the lease of that name until ttl from now, and
	// reports whether holder has it: there was none, or it was over, or
	// holder's own. Until ttl has passed since before the call, nobody else
	// gets it; on an error or false, holder does not have it for sure, and must
	// act as if he did not. With a ttl that is not positive holder gives his
	// lease back, if he has it, and the result is false.
	Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error)
}
