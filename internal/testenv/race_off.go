//go:build !race

package testenv

// Race tells whether the calling test was built with the race detector.
const Race = false
