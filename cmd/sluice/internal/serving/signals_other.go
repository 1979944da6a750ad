//go:build !unix

package serving

// ignoreSignals does nothing: this system has no signals for failed writes.
func ignoreSignals() {}
