package node

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
)

// TestListenErrorsNameTheRemedy wraps the system's errors as package net does: a test that runs as
// root cannot be refused a port below 1024.
func TestListenErrorsNameTheRemedy(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.EADDRINUSE:    "cannot listen on localhost:80: the port is in use: stop the program that uses it, or choose another with --addr HOST:PORT (port 0 selects a free one): ",
		syscall.EACCES:        "cannot listen on localhost:80: ports below 1024 require a privilege: choose another with --addr HOST:PORT, or grant CAP_NET_BIND_SERVICE: ",
		syscall.EADDRNOTAVAIL: "cannot listen on localhost:80: choose another address with --addr HOST:PORT: ",
	} {
		cause := &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", errno)}
		if err := listenError("--addr", "localhost:80", cause); err.Error() != want+cause.Error() || !errors.Is(err, errno) {
			t.Errorf("%v: %v, want %s", errno, err, want)
		}
	}
}
