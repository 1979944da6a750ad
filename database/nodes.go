package database

import (
	"context"
	"time"
)

// OldestSchema is the oldest schema of the database whose nodes can run with those of this version.
// The nodes of an older one would fail or miscount on the present schema: before 9 they insert
// sales without an id, so that payments fail; before 11 they do not count objects, names and
// channels; and before 12 they lose metadata of blobs. A change that the nodes of the version
// before it cannot work on must raise it to its own schema (docs/versioning.md).
const OldestSchema = 12

// Nodes records the servers that share one database, with the settings that each of them runs
// with. Like leases they are judged by the engine's clock.
type Nodes interface {
	// Join records that the node runs with these settings until ttl from now. A node must
	// call it again before that. In the same transaction agrees is called with the settings
	// of all other nodes whose time is not over, in any order. If it returns an error, the
	// call has no effect and returns that error. So of two nodes that join concurrently, one
	// sees the other. agrees may be called several times.
	Join(ctx context.Context, node, settings string, ttl time.Duration, agrees func(others []string) error) error

	// Leave removes a node. It is no error if the node is unknown.
	Leave(ctx context.Context, node string) error
}
