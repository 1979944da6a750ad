//go:build !linux

package client

import "os"

// startWriteback does nothing: it is a hint.
func startWriteback(*os.File, int64, int64) {}
