package connlimit

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// unsentLimit is how many bytes the kernel buffers beyond those that the client's window and the
// network let it send: enough for a fast transfer.
const unsentLimit = 256 << 10

// limitUnsent prevents a stalled client from filling its send buffer, which grows to 4 MiB: a
// thousand of them use up the kernel's memory for TCP, and then every connection stalls. The bytes
// in flight are not limited.
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
