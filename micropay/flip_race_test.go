//go:build race

package micropay

// flipStride is the distance between the bits that are tried. The race detector
// slows verification by a factor of twenty and has nothing to find there, so
// only the ordinary test run is exhaustive; 13 visits all positions in a byte.
const flipStride = 13
