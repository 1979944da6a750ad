package database

import (
	"context"
	"time"
)

// Node describes a node for operators, as it has published itself.
type Node struct {
	Name    string // for people; several nodes may have the same
	Version string
	Reason  string    // why it is not ready; "": it is ready
	Since   time.Time // since when it is ready, or is not
	Leads   bool      // whether it does the background work
}

// Nodes records the servers that share one database, and each server's settings. Like a lease, a
// record ends by the engine's clock.
type Nodes interface {
	// Join records that the node with this id runs with these settings until ttl from now, and
	// publishes n. A node must call it again before that. In the same transaction Join calls
	// agrees with the settings of all other nodes that are still within their ttl, in any order. If
	// agrees returns an error, Join has no effect and returns that error. So if two nodes join
	// concurrently, one sees the other. Join may call agrees several times. After a node that leads
	// has joined, no other one is recorded to lead until it joins again.
	Join(ctx context.Context, id, settings string, n Node, ttl time.Duration, agrees func(others []string) error) error

	// Leave removes a node. It is no error if the node is unknown.
	Leave(ctx context.Context, id string) error

	// ListNodes returns the nodes that are within their ttl, by their names.
	ListNodes(ctx context.Context) ([]Node, error)
}
