package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"sluice/httpapi"
)

// errStopped: a second signal ended the drain.
var errStopped = errors.New("stopped by a second signal before all requests had ended")

// drainingServer is the HTTP server on all its listeners.
type drainingServer struct {
	api         *httpapi.Server
	http        *http.Server
	connections *httpapi.Connections // nil: they are not capped
}

// start serves the listeners, with TLS where it is configured. The channel gets
// the first failure.
func (s *drainingServer) start(listeners []net.Listener) <-chan error {
	if s.http.TLSConfig == nil {
		return serve(listeners, s.http.Serve)
	}
	return serve(listeners, func(l net.Listener) error { return s.http.ServeTLS(l, "", "") })
}

// serve serves each listener. The channel gets the first failure.
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

// cutTime is how long requests that were cut may take to put things in order:
// what was paid and not served goes back.
const cutTime = 5 * time.Second

// drain lets running requests end. First everything goes on for the time of
// wait, but for /readyz, so that whoever sends requests here learns of it; a
// signal cuts that short. Then no new requests are taken, and what still runs at
// the deadline or at a further signal is cut, which is an error.
func (s *drainingServer) drain(wait, deadline time.Duration, signals <-chan os.Signal) error {
	s.api.Drain()
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-signals:
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()

	drained := make(chan error, 1)
	go func() { drained <- s.http.Shutdown(ctx) }()
	var cause error
	select {
	case err := <-drained:
		if !errors.Is(err, context.DeadlineExceeded) {
			s.awaitReplies(ctx)
			return err
		}
		cause = fmt.Errorf("stopped after %s before all requests had ended", deadline)
	case <-signals:
		cause = errStopped
	}
	s.cutUploads()
	cut, cancel := context.WithTimeout(context.Background(), cutTime)
	defer cancel()
	return errors.Join(cause, s.http.Close(), s.api.Wait(cut))
}

// cutUploads ends what clients still send, and lets them have the reply that says
// so. What the service still sends is cut with the connections.
func (s *drainingServer) cutUploads() {
	if !s.api.Cut() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastReplies)
	defer cancel()
	_ = s.http.Shutdown(ctx) // what does not end in time is cut
}

// lastReplies is how long the process waits, after the last reply, for clients
// to take it and close their end.
const lastReplies = time.Second

func (s *drainingServer) awaitReplies(ctx context.Context) {
	if s.connections == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lastReplies)
	defer cancel()
	s.connections.Wait(ctx)
}
