//go:build !unix

package main

// ignoreSignals does nothing: this system has no signals for failed writes.
func ignoreSignals() {}
