package testenv

import (
	"net/netip"
	"os"
	"syscall"
	"testing"
)

// ReserveAddress returns a loopback address, host:port, for a server that the test starts later or
// again. Until the test ends, no other program gets the port when it asks for any free one, or for
// a connection. The server must set SO_REUSEADDR, as most do.
func ReserveAddress(tb testing.TB) string {
	tb.Helper()
	// A socket that is bound and does not listen keeps the port: with SO_REUSEADDR it is shared
	// with sockets that name it, but is not chosen for any other.
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Fatal(os.NewSyscallError("socket", err))
	}
	tb.Cleanup(func() {
		if err := syscall.Close(fd); err != nil {
			tb.Error(os.NewSyscallError("close", err))
		}
	})
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		tb.Fatal(os.NewSyscallError("setsockopt", err))
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		tb.Fatal(os.NewSyscallError("bind", err))
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		tb.Fatal(os.NewSyscallError("getsockname", err))
	}
	in := bound.(*syscall.SockaddrInet4)
	return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port)).String()
}
