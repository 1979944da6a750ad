package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"syscall"
)

// pickTries bounds how often a port that is free on one loopback address is
// tried on the other.
const pickTries = 20

// listen opens the address that a flag gave: both loopback addresses for
// localhost, else the address alone. It returns the listeners and the port that
// they share.
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
	for try := 1; ; try++ {
		listeners, chosen, err := listenLoopback(ctx, flag, port, log)
		if port != "0" || try == pickTries || !errors.Is(err, syscall.EADDRINUSE) {
			return listeners, chosen, err
		}
	}
}

// listenLoopback opens 127.0.0.1 and, where there is IPv6, ::1 with the same
// port.
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
		log.Info("not listening on ::1: there is no IPv6 here")
		return []net.Listener{v4}, chosen, nil
	default:
		return nil, 0, errors.Join(err, v4.Close())
	}
}

func listenTCP(ctx context.Context, flag, network, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("cannot listen on %s: the port is in use: stop the program that has it, or choose another with %s HOST:PORT (port 0 picks a free one): %w", addr, flag, err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", addr, err)
	}
	return l, nil
}

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
