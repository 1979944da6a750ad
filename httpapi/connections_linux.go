package httpapi

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// unsentLimit is how much the kernel takes ahead of what a client's window and
// the network let it send: enough to keep a fast transfer busy.
const unsentLimit = 256 << 10

// limitUnsent keeps a client that stalls from filling a send buffer, which
// grows to 4 MiB: a thousand of them use up the memory that the kernel has for
// TCP, and then every connection stalls. What is in flight is not limited.
func limitUnsent(conn *net.TCPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentLimit)
	})
	return errors.Join(err, set)
}
