package node

import (
	"context"

	"sluice/database"
)

// self describes this node.
func (n *Node) self(ctx context.Context) database.Node {
	var reason string
	switch {
	case n.api == nil:
		reason = "it is starting"
	case n.api.Draining():
		reason = "it is draining"
	default:
		if err := n.api.Ready(ctx); err != nil {
			reason = published(err)
		}
	}
	s := &n.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if ready := reason == ""; s.since.IsZero() || ready != s.ready {
		s.ready, s.since = ready, n.stores.Meta.Now()
	}
	return database.Node{Name: n.config.nodeName(), Version: n.config.Version, Reason: reason, Since: s.since, Leads: n.tasks.leading()}
}

// nodes returns the nodes that run.
func (n *Node) nodes(ctx context.Context) ([]database.Node, error) {
	if n.members == nil {
		return []database.Node{n.self(ctx)}, nil
	}
	return n.stores.Meta.ListNodes(ctx)
}
