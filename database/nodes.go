package database

import (
	"context"
	"time"
)

// Nodes records the servers that share one database, and each server's settings. Like a lease, a
// record ends by the engine's clock.
type Nodes interface {
	// Join records that the node runs with these settings until ttl from now. A node must call it
	// again before that. In the same transaction Join calls agrees with the settings of all other
	// nodes that are still within their ttl, in any order. If agrees returns an error, Join has no
	// effect and returns that error. So if two nodes join concurrently, one sees the other. Join
	// may call agrees several times.
	Join(ctx context.Context, node, settings string, ttl time.Duration, agrees func(others []string) error) error

	// Leave removes a node. It is no error if the node is unknown.
	Leave(ctx context.Context, node string) error
}
