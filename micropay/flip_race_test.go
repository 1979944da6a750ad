//go:build race

package micropay

// flipStride is the distance between the bits that are flipped. The race detector slows
// verification by a factor of twenty and has nothing to find there, so only the ordinary test run
// flips all bits; 13 reaches all positions in a byte.
const flipStride = 13
