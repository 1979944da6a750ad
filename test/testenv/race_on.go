//go:build race

package testenv

// Race reports whether the calling test was built with the race detector.
const Race = true
