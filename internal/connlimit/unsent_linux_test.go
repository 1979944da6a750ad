package connlimit

import (
	"errors"
	"net"
	"testing"

	"sluice/test/testenv"

	"golang.org/x/sys/unix"
)

// TestUnsentBytesAreBounded: the unsent bytes of every connection are bounded.
func TestUnsentBytesAreBounded(t *testing.T) {
	l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	capped := New(2, nil).Listener(l, false)
	client := testenv.Must(net.Dial("tcp", l.Addr().String()))(t)
	conn := testenv.Must(capped.Accept())(t)
	raw, err := conn.(*Conn).SyscallConn()
	testenv.OK(t, err)
	var (
		got    int
		asking error
	)
	err = raw.Control(func(fd uintptr) {
		got, asking = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
	})
	if err := errors.Join(err, asking); err != nil || got != unsentLimit {
		t.Errorf("limit %d, %v; want %d", got, err, unsentLimit)
	}
	testenv.Check(t, errors.Join(client.Close(), conn.Close(), capped.Close()))
}
