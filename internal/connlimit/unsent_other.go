//go:build !linux

package connlimit

import "net"

// limitUnsent does nothing: the send buffers of other systems are small.
func limitUnsent(*net.TCPConn) error { return nil }
