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

	"sluice/blob"
	"sluice/httpapi"
	"sluice/metastore"
	"sluice/paychan"
	"sluice/session"
)

type serveCommand struct {
	config
}

// Run serves until SIGINT or SIGTERM, then drains. It returns nil when all
// requests ended within the deadline.
func (c *serveCommand) Run(console *console) error {
	log := slog.New(slog.NewTextHandler(console.err, nil))
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	stores, err := openData(ctx, c.Data)
	if err != nil {
		return err
	}
	blobs := blob.New(stores.meta, stores.bytes, blob.Options{
		Space:           stores.space,
		VerifyTTL:       c.VerifyTTL,
		AllowLargeSweep: c.AllowLargeSweep,
	})
	api, err := c.newAPI(ctx, stores, blobs, log)
	if err != nil {
		return errors.Join(err, stores.Close())
	}
	listeners, port, err := listen(ctx, c.Addr, log)
	if err != nil {
		return errors.Join(err, stores.Close())
	}
	var background sync.WaitGroup
	background.Go(func() {
		blobs.Run(ctx, func(task string, err error) { log.Error("background task failed", "task", task, "error", err) })
	})
	server := &drainingServer{api: api, http: httpapi.NewHTTPServer(api, log)}
	failed := server.start(listeners)

	if c.OpenToNetwork {
		log.Warn("open to the network: everybody who reaches this address can read and write everything")
	}
	if _, err := fmt.Fprintf(console.out, "sluice %s listening on %s (data in %s)\n", version(), c.url(port), c.Data); err != nil {
		log.Warn("cannot say where this listens", "error", err)
	}
	select {
	case err = <-failed:
	case s := <-signals:
		log.Info("draining", "signal", s.String(), "deadline", c.DrainDeadline)
		err = server.drain(c.DrainDeadline, signals)
	}
	stop()
	if err != nil {
		// Requests still run: closing what they work with would only add noise,
		// and everything acknowledged is durable already.
		return err
	}
	background.Wait()
	return stores.Close()
}

// newAPI puts the services behind the HTTP interface.
func (c *serveCommand) newAPI(ctx context.Context, stores *stores, blobs *blob.Service, log *slog.Logger) (*httpapi.Server, error) {
	receiver, err := receiverOf(ctx, stores.meta)
	if err != nil {
		return nil, err
	}
	return httpapi.New(httpapi.Config{
		Version:  version(),
		BasePath: c.BasePath,
		Blobs:    blobs,
		Sessions: session.New(stores.meta, session.Options{Grant: session.DefaultGrant}),
		Channels: paychan.New(stores.meta, paychan.Options{
			Receiver: receiver,
			Asset:    paychan.DefaultAsset,
			Deposit:  paychan.DefaultDeposit,
		}),
		Receiver:      receiver,
		AllowedHosts:  c.AllowedHosts,
		CORSOrigins:   c.CORSOrigins,
		OpenToNetwork: c.OpenToNetwork,
		Ready:         func(context.Context) error { return stores.ready() },
		Log:           log,
	})
}

// receiverOf gives the address that this instance is paid at; one is made at
// the first start.
func receiverOf(ctx context.Context, facts metastore.Facts) (string, error) {
	const fact = "receiver"
	receiver, err := facts.Fact(ctx, fact)
	if !errors.Is(err, metastore.ErrNotFound) {
		return receiver, err
	}
	receiver = paychan.NewReceiver()
	return receiver, facts.SetFact(ctx, fact, receiver)
}

// url is where a client on this machine finds the service.
func (c *serveCommand) url(port int) string {
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil || host == "" {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, fmt.Sprint(port)) + c.BasePath
}
