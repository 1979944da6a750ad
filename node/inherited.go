package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
)

// listenForClients returns the listeners of the service and their first port: the sockets that this
// process inherits, or the sockets for --addr.
func listenForClients(ctx context.Context, addr string, log *slog.Logger) ([]net.Listener, int, error) {
	listeners, port, err := listenInherited()
	if err != nil || len(listeners) > 0 {
		return listeners, port, err
	}
	return listen(ctx, "--addr", addr, log)
}

// inheritedFiles are the sockets that the supervisor of this process has opened for it, as systemd
// does for a socket unit: see sd_listen_fds(3). They stay open until the process ends, and in the
// supervisor longer, so that a connection which arrives during a restart waits for the next
// process.
var inheritedFiles = sync.OnceValues(func() (files []*os.File, err error) {
	const first = 3
	pid, count := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	if pid != strconv.Itoa(os.Getpid()) {
		return nil, nil // none, or another process's
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 {
		return nil, fmt.Errorf("LISTEN_FDS is %q, and must be the number of sockets", count)
	}
	for fd := first; fd < first+n; fd++ {
		files = append(files, os.NewFile(uintptr(fd), fmt.Sprint("inherited socket ", fd)))
	}
	return files, nil
})

// listenInherited returns a listener for each inherited socket, and their first port. It returns
// none if there are no such sockets.
func listenInherited() (listeners []net.Listener, port int, err error) {
	files, err := inheritedFiles()
	if err != nil {
		return nil, 0, err
	}
	for _, file := range files {
		l, err := net.FileListener(file)
		if err == nil && l.Addr().Network() != "tcp" {
			err = errors.Join(errors.New("it is not a TCP socket"), l.Close())
		}
		if err != nil {
			return nil, 0, fmt.Errorf("cannot listen on the %s: check the socket unit: %w", file.Name(), errors.Join(append(closeAll(listeners), err)...))
		}
		listeners = append(listeners, l)
	}
	if len(listeners) == 0 {
		return nil, 0, nil
	}
	return listeners, portOf(listeners[0]), nil
}

func closeAll(listeners []net.Listener) (errs []error) {
	for _, l := range listeners {
		errs = append(errs, l.Close())
	}
	return errs
}
