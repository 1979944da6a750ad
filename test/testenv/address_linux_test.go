package testenv

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// TestReservedAddress starts servers at a reserved address, one after another. In between, sockets
// that do not share the address cannot have it, and connections to it are refused.
func TestReservedAddress(t *testing.T) {
	address := ReserveAddress(t)
	alone := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0)
		})
		return errors.Join(err, failed)
	}}
	for range 3 {
		if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a connection without a server: %v", err)
		}
		if _, err := alone.Listen(t.Context(), "tcp", address); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("another listener: %v", err)
		}
		server := Must(net.Listen("tcp", address))(t)
		c := Must(net.Dial("tcp", address))(t)
		OK(t, errors.Join(c.Close(), server.Close()))
	}
}
