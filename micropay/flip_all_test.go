//go:build !race

package micropay

// flipStride is the distance between the bits that are tried: every one.
const flipStride = 1
