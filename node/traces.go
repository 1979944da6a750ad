package node

import (
	"context"
	"time"

	"sluice/internal/tracing"
)

// tracesTimeout bounds how long a node waits at its end for the collector of its traces.
const tracesTimeout = 2 * time.Second

// openTraces puts spans around the stores' calls, if the environment enables tracing. A hosted
// node does not follow the traces of strangers.
func (n *Node) openTraces(ctx context.Context) (err error) {
	n.tracer, err = tracing.Open(ctx, tracing.Options{Version: n.config.Version, Follow: n.config.Profile == Local, Log: n.log})
	if n.tracer != nil {
		n.stores.Meta, n.stores.Bytes = n.tracer.Meta(n.stores.Meta), n.tracer.Bytes(n.stores.Bytes)
	}
	return err
}

// closeTraces exports the spans that have ended. Spans that the collector does not accept in time
// are lost.
func (n *Node) closeTraces() {
	if n.tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tracesTimeout)
	defer cancel()
	if err := n.tracer.Close(ctx); err != nil {
		n.log.Warn("traces are lost", "error", err)
	}
}
