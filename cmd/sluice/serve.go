package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/access"
	"sluice/blob"
	"sluice/httpapi"
	"sluice/metastore"
	"sluice/paychan"
	"sluice/session"
	"sluice/wire"
)

type serveCommand struct {
	config
}

// Run serves until SIGINT or SIGTERM, then drains. It returns nil when all
// requests ended within the deadline. SIGHUP loads the TLS certificate anew.
func (c *serveCommand) Run(console *console) error {
	log := slog.New(slog.NewTextHandler(console.err, nil))
	// A reader of our log that goes away must not take the service with it.
	signal.Ignore(syscall.SIGPIPE)
	// Without TLS there is nothing to load anew, which is no reason to end.
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var cert *certificate
	if c.TLSCert != "" {
		var err error
		if cert, err = loadCertificate(c.TLSCert, c.TLSKey); err != nil {
			return err
		}
	}
	most, err := c.maxConnections()
	if err != nil {
		return err
	}
	connections := httpapi.NewConnections(most)
	metrics := newRegistry()
	connections.Register(metrics)
	stores, err := openData(ctx, c.Data)
	if err != nil {
		return err
	}
	blobs := blob.New(stores.meta, stores.bytes, blob.Options{
		Space:           stores.space,
		Relieve:         stores.ballast.drop,
		Restore:         stores.ballast.restore,
		VerifyTTL:       c.VerifyTTL,
		AllowLargeSweep: c.AllowLargeSweep,
	})
	channels, payment, err := c.newChannels(ctx, stores)
	if err != nil {
		return errors.Join(err, stores.Close())
	}
	var keys *access.Keys // none make a local instance
	if c.Profile == hosted {
		keys = access.NewKeys(stores.meta, access.KeysOptions{})
	}
	api, err := c.newAPI(stores, blobs, channels, payment, keys, metrics, log)
	if err != nil {
		return errors.Join(err, stores.Close())
	}
	stopAdmin, err := c.startAdmin(ctx, metrics, log)
	if err != nil {
		return errors.Join(err, stores.Close())
	}
	listeners, port, err := listen(ctx, "--addr", c.Addr, log)
	if err != nil {
		return errors.Join(err, stopAdmin(), stores.Close())
	}
	// Until here a signal ends the process at once, which no start minds.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)

	var background sync.WaitGroup
	report := func(task string, err error) { log.Error("background task failed", "task", task, "error", err) }
	background.Go(func() { blobs.Run(ctx, report) })
	background.Go(func() { channels.Run(ctx, channels.Ledger(), report) })
	if keys != nil {
		background.Go(func() { keys.Run(ctx, func(err error) { report("watch keys", err) }) })
	}
	server := &drainingServer{api: api, http: httpapi.NewHTTPServer(api, log)}
	server.http.ConnState = connections.ConnState
	for i, l := range listeners {
		listeners[i] = connections.Listener(l, cert != nil)
	}
	if cert != nil {
		server.http.TLSConfig = cert.config()
		background.Go(func() { cert.watch(ctx, reload, log) })
	}
	failed := server.start(listeners)

	if c.OpenToNetwork {
		log.Warn("open to the network: everybody who reaches this address can read and write everything")
	}
	if c.ExternalURL != "" {
		log.Info("clients find the service at its external URL", "url", c.ExternalURL)
	}
	if _, err := fmt.Fprintf(console.out, "sluice %s listening on %s (data in %s)\n", version(), c.url(port), c.Data); err != nil {
		log.Warn("cannot say where this listens", "error", err)
	}
	select {
	case err = <-failed:
	case s := <-signals:
		log.Info("draining", "signal", s.String(), "wait", *c.DrainWait, "deadline", c.DrainDeadline)
		err = server.drain(*c.DrainWait, c.DrainDeadline, signals)
	}
	stop()
	err = errors.Join(err, stopAdmin())
	if err != nil {
		// Requests still run: closing what they work with would only add noise,
		// and everything acknowledged is durable already.
		return err
	}
	background.Wait()
	return stores.Close()
}

// newAPI puts the services behind the HTTP interface.
func (c *serveCommand) newAPI(stores *stores, blobs *blob.Service, channels *paychan.Service, payment wire.Payment, keys *access.Keys, metrics prometheus.Registerer, log *slog.Logger) (*httpapi.Server, error) {
	grant := int64(session.DefaultGrant)
	if c.Profile == hosted || c.Reads == string(httpapi.ReadsPaid) {
		grant = 0
	}
	proxies, err := c.trustedProxies()
	if err != nil {
		return nil, err
	}
	return httpapi.New(httpapi.Config{
		Version:  version(),
		BasePath: c.BasePath,
		URL:      c.ExternalURL,
		Blobs:    blobs,
		Sessions: session.New(stores.meta, session.Options{Grant: grant, TTL: c.SessionTTL, Space: stores.space}),
		Channels: channels,
		Reads:    httpapi.Reads(c.Reads),
		Payment:  payment,
		Keys:     keys,
		Limiter: access.NewLimiter(access.LimiterOptions{
			Key:     c.Key.limits(),
			Address: c.Address.limits(),
			Usage:   stores.meta,
		}),
		TrustedProxies: proxies,
		MaxRequests:    int64(c.MaxRequests),
		Metrics:        metrics,
		Local:          httpapi.Local{AllowedHosts: c.AllowedHosts, CORSOrigins: c.CORSOrigins, OpenToNetwork: c.OpenToNetwork},
		Ready:          func(context.Context) error { return stores.ready() },
		Log:            log,
	})
}

// newChannels gives the channels of this instance, and what is published of how
// they are paid.
func (c *serveCommand) newChannels(ctx context.Context, stores *stores) (*paychan.Service, wire.Payment, error) {
	receiver, err := c.receiver(ctx, stores.meta)
	if err != nil {
		return nil, wire.Payment{}, err
	}
	channels, err := paychan.New(stores.meta, paychan.Options{
		TTL:            c.ChannelTTL,
		Space:          stores.space,
		SessionTTL:     c.SessionTTL,
		Receiver:       receiver,
		Asset:          c.Asset,
		Module:         c.MicropaymentModule,
		ChainID:        c.ChainID,
		Price:          c.ChunksetPrice,
		Deposit:        paychan.DefaultDeposit,
		UnsettledLimit: c.UnsettledLimit,
	})
	if err != nil {
		return nil, wire.Payment{}, err
	}
	payment := wire.Payment{
		ChainID:        int(c.ChainID),
		ChunksetPrice:  strconv.FormatInt(c.ChunksetPrice, 10),
		UnsettledLimit: strconv.FormatInt(c.UnsettledLimit, 10),
	}
	payment.Receiver, payment.Asset, payment.Module = channels.Payee()
	return channels, payment, nil
}

// receiver gives the address that this instance is paid at: the one that was
// configured, or one that was made at the first start.
func (c *serveCommand) receiver(ctx context.Context, facts metastore.Facts) (string, error) {
	if c.Receiver != "" {
		return c.Receiver, nil
	}
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
	scheme := "http://"
	if c.TLSCert != "" {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, fmt.Sprint(port)) + c.BasePath
}
