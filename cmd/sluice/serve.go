package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

type serveCommand struct {
	config
}

// Run serves until SIGINT or SIGTERM, then drains. It returns nil when all
// requests ended within the deadline. SIGHUP loads the TLS certificate anew. It
// also drains when a store must be opened anew to take writes, and returns the
// reason, so that the process ends with 1 and a supervisor starts it again.
func (c *serveCommand) Run(console *console) error {
	log := slog.New(slog.NewTextHandler(console.err, &slog.HandlerOptions{Level: c.LogLevel}))
	// A reader of our log that goes away must not take the service with it.
	signal.Ignore(syscall.SIGPIPE)
	// A file that may not grow is an error of its write.
	signal.Ignore(syscall.SIGXFSZ)
	// Without TLS there is nothing to load anew, which is no reason to end.
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	n, err := c.openNode(ctx, log)
	if err != nil {
		return err
	}
	stopAdmin, err := c.startAdmin(ctx, n.metrics, log)
	if err != nil {
		return errors.Join(err, n.stores.Close())
	}
	listeners, port, err := listen(ctx, "--addr", c.Addr, log)
	if err != nil {
		return errors.Join(err, stopAdmin(), n.stores.Close())
	}
	// Until here a signal ends the process at once, which no start minds.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)

	var background sync.WaitGroup
	background.Go(func() { n.work(ctx, reload) })
	server := n.server(listeners)
	failed := server.start(listeners)
	var stopped error // why a store takes no writes until it is opened anew
	if err := c.announce(console, port, log); err != nil {
		log.Warn("cannot say where this listens", "error", err)
	}
	select {
	case err = <-failed:
	case s := <-signals:
		log.Info("draining", "signal", s.String(), "wait", *c.DrainWait, "deadline", c.DrainDeadline)
		err = server.drain(*c.DrainWait, c.DrainDeadline, signals)
	case <-n.stores.metaStopped:
		stopped = n.stores.ready(ctx)
	case <-n.stores.bytesStopped:
		stopped = n.stores.ready(ctx)
	}
	if stopped != nil {
		log.Error("no more writes are possible in this process: draining, to be started again", "cause", stopped, "wait", *c.DrainWait, "deadline", c.DrainDeadline)
		err = server.drain(*c.DrainWait, c.DrainDeadline, signals)
	}
	stop()
	if err = errors.Join(err, stopAdmin(), n.returns.Close()); err != nil {
		// Requests still run: closing what they work with would only add noise,
		// and everything acknowledged is durable already.
		return errors.Join(stopped, err)
	}
	background.Wait()
	// On a full disk this makes the room that the next start needs.
	return errors.Join(stopped, n.stores.Close())
}

// announce tells where the service is.
func (c *serveCommand) announce(console *console, port int, log *slog.Logger) error {
	if c.OpenToNetwork {
		log.Warn("open to the network: everybody who reaches this address can read and write everything")
	}
	if c.ExternalURL != "" {
		log.Info("clients find the service at its external URL", "url", c.ExternalURL)
	}
	_, err := fmt.Fprintf(console.out, "sluice %s listening on %s (data in %s)\n", version(), c.url(port), c.Places.Data)
	return err
}

// url is where a client on this machine finds the service.
func (c *serveCommand) url(port int) string {
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil || host == "" {
		host = "localhost"
	}
	scheme := "http://"
	if c.TLSCert != "" {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, fmt.Sprint(port)) + c.BasePath
}
