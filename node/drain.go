package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"sluice/httpapi"
	"sluice/internal/connlimit"
)

// errStopped is returned by drain when a signal ended it.
var errStopped = errors.New("stopped by a second signal before all requests had completed")

const (
	// abortTimeout bounds the time that aborted requests have for their cleanup: charges for bytes
	// that were not served are refunded.
	abortTimeout = 5 * time.Second
	// lingerTimeout bounds the wait, after the last response, for clients to read
	// it and to close their connections.
	lingerTimeout = time.Second
	// requestTimeout bounds the wait for the first requests of connections that were
	// accepted when a drain's wait ends.
	requestTimeout = time.Second
)

// drainingServer is the HTTP server on all its listeners.
type drainingServer struct {
	api         *httpapi.Server
	http        *http.Server
	connections *connlimit.Limiter // nil if connections are not limited
	listeners   []net.Listener     // set by start
}

// start serves the listeners. The first error is sent on the channel that it returns.
func (s *drainingServer) start(listeners []net.Listener) <-chan error {
	for _, l := range listeners {
		s.listeners = append(s.listeners, closedOnce{l, sync.OnceValue(l.Close)})
	}
	return serveHTTP(s.http, s.listeners)
}

// closedOnce is a listener that may be closed again.
type closedOnce struct {
	net.Listener
	close func() error
}

func (l closedOnce) Close() error { return l.close() }

// serveHTTP serves the listeners, with TLS if it is configured. The first error is
// sent on the channel that it returns.
func serveHTTP(server *http.Server, listeners []net.Listener) <-chan error {
	if server.TLSConfig == nil {
		return serve(listeners, server.Serve)
	}
	return serve(listeners, func(l net.Listener) error { return server.ServeTLS(l, "", "") })
}

// serve calls on for each listener, each in a goroutine. The first error is sent on
// the channel that it returns.
func serve(listeners []net.Listener, on func(net.Listener) error) <-chan error {
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() {
			if err := on(l); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serving %s: %w", l.Addr(), err)
			}
		}()
	}
	return failed
}

// drain stops the server. For the duration wait it serves as before while /readyz
// reports 503, so that load balancers send their requests elsewhere; a signal ends
// the wait. Then it accepts no new requests. Requests that have not completed after
// deadline, or at a further signal, are aborted, and drain returns an error.
func (s *drainingServer) drain(wait, deadline time.Duration, signals <-chan os.Signal) error {
	s.api.Drain()
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-signals:
		}
		s.stopAccepting()
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()

	drained := make(chan error, 1)
	go func() { drained <- s.http.Shutdown(ctx) }()
	var cause error
	select {
	case err := <-drained:
		if !errors.Is(err, context.DeadlineExceeded) {
			s.awaitClients(ctx)
			return err
		}
		cause = fmt.Errorf("stopped after %s before all requests had completed", deadline)
	case <-signals:
		cause = errStopped
	}
	s.abortUploads()
	abort, cancel := context.WithTimeout(context.Background(), abortTimeout)
	defer cancel()
	return errors.Join(cause, s.http.Close(), s.api.Wait(abort))
}

// stopAccepting closes the listeners, and waits until the connections that were
// accepted are used.
func (s *drainingServer) stopAccepting() {
	for _, l := range s.listeners {
		_ = l.Close() // Shutdown does so again, and returns the same error
	}
	if s.connections == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	s.connections.WaitForRequests(ctx)
}

// abortUploads aborts requests that still send their bodies, and allows
// their clients time to read the error response. Responses that are still being
// sent are cut off when the connections are closed.
func (s *drainingServer) abortUploads() {
	if !s.api.Cut() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lingerTimeout)
	defer cancel()
	_ = s.http.Shutdown(ctx) // the rest is closed by the caller
}

// awaitClients waits for clients to read the last responses.
func (s *drainingServer) awaitClients(ctx context.Context) {
	if s.connections == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lingerTimeout)
	defer cancel()
	s.connections.Wait(ctx)
}
