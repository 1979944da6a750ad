//go:build !race

package micropay

// flipStride is the distance between the bits that are flipped: all of them.
const flipStride = 1
