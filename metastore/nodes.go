package metastore

import (
	"context"
	"time"
)

// Nodes are the servers that work on one database at the same time, and the
// settings that each of them runs with. They are judged by the engine's clock, as
// leases are.
type Nodes interface {
	// Join records, in one transaction with what it decides on, that the node runs
	// with these settings until ttl from now; a node repeats it before that. agrees
	// is called with the settings of the other nodes whose time is not over, in no
	// order; its error fails the call, which then has no effect. So of two nodes
	// that join at once one sees the other. agrees may be called more than once.
	Join(ctx context.Context, node, settings string, ttl time.Duration, agrees func(others []string) error) error

	// Leave forgets a node, which need not be known.
	Leave(ctx context.Context, node string) error
}
