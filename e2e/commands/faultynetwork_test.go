package commands

import (
	"math/rand/v2"
	"net"

	"sluice/e2e"
)

// newFaultyNetwork returns a listener for l's connections.
func newFaultyNetwork(l net.Listener, seed uint64) *e2e.FaultyNetwork {
	return &e2e.FaultyNetwork{Listener: l, Random: rand.New(rand.NewPCG(seed, 0))}
}
