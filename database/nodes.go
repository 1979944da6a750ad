package database

import (
	"context"
	"time"
)

// OldestSchema is the oldest schema with which nodes of its version can run beside nodes of this
// version. Nodes of an older schema would fail or miscount on the present one:
//
//   - before 9 they insert sales without an id, so that payments fail;
//   - before 11 they do not count objects, names and channels;
//   - before 12 they lose blobs' metadata;
//   - before 24 they write to a database that was set back.
//
// A change on which the previous version's nodes cannot work must raise OldestSchema to its own
// schema (docs/versioning.md).
const OldestSchema = 24

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
