// Package vfstest contains file systems for tests, and helpers for their files.
//
// NewCrash returns a file system in memory that, on Crash, loses everything that was not fsynced.
// Intercept wraps a file system: its hook sees every operation and may let it fail. Trace and
// Inject are built on it.
package vfstest
