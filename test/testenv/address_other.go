//go:build !linux

package testenv

import (
	"net"
	"testing"
)

// ReserveAddress returns a loopback address, host:port. The port was free when it was chosen. Only
// Linux can keep it free.
func ReserveAddress(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return l.Addr().String()
}
