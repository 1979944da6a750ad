package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"syscall"
)

// maxPortAttempts bounds the search for a port that is free on both loopback
// addresses.
const maxPortAttempts = 20

// listen listens on both loopback addresses if the host of addr is localhost, and on
// addr otherwise. It returns the listeners and their common port. An error names
// flag, which sets addr.
func listen(ctx context.Context, flag, addr string, log *slog.Logger) ([]net.Listener, int, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, 0, err
	}
	if host != "localhost" {
		l, err := listenTCP(ctx, flag, "tcp", addr)
		if err != nil {
			return nil, 0, err
		}
		return []net.Listener{l}, portOf(l), nil
	}
	for attempt := 1; ; attempt++ {
		listeners, chosen, err := listenLoopback(ctx, flag, port, log)
		if port != "0" || attempt == maxPortAttempts || !errors.Is(err, syscall.EADDRINUSE) {
			return listeners, chosen, err
		}
	}
}

// listenLoopback listens on 127.0.0.1 and, if the machine has IPv6, on ::1 with the
// same port.
func listenLoopback(ctx context.Context, flag, port string, log *slog.Logger) ([]net.Listener, int, error) {
	v4, err := listenTCP(ctx, flag, "tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return nil, 0, err
	}
	chosen := portOf(v4)
	v6, err := listenTCP(ctx, flag, "tcp6", net.JoinHostPort("::1", strconv.Itoa(chosen)))
	switch {
	case err == nil:
		return []net.Listener{v4, v6}, chosen, nil
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT):
		// At a higher level it would precede the first screen.
		log.Debug("not listening on ::1: this machine has no IPv6")
		return []net.Listener{v4}, chosen, nil
	default:
		return nil, 0, errors.Join(err, v4.Close())
	}
}

func listenTCP(ctx context.Context, flag, network, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, addr)
	if err != nil {
		return nil, listenError(flag, addr, err)
	}
	return l, nil
}

// listenError adds advice to an error of Listen.
func listenError(flag, addr string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("cannot listen on %s: the port is in use: stop the program that uses it, or choose another with %s HOST:PORT (port 0 selects a free one): %w", addr, flag, err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("cannot listen on %s: ports below 1024 require a privilege: choose another with %s HOST:PORT, or grant CAP_NET_BIND_SERVICE: %w", addr, flag, err)
	default:
		return fmt.Errorf("cannot listen on %s: choose another address with %s HOST:PORT: %w", addr, flag, err)
	}
}

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
