package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/access"
	"sluice/blob"
	"sluice/httpapi"
	"sluice/internal/boottime"
	"sluice/metastore"
	"sluice/metering"
	"sluice/paychan"
	"sluice/session"
	"sluice/wire"
)

// node is all that serves, but for the listeners.
type node struct {
	config      *config
	log         *slog.Logger
	metrics     *prometheus.Registry
	cert        *certificate // nil: no TLS
	stores      *stores
	blobs       *blob.Service
	channels    *paychan.Service
	returns     *metering.Returns
	keys        *access.Authenticator // nil on a local instance
	api         *httpapi.Server
	connections *httpapi.Connections
	members     *membership // nil where no other node can run
}

// openNode opens the stores and puts the services on them. The caller closes
// the stores.
func (c *config) openNode(ctx context.Context, log *slog.Logger) (_ *node, err error) {
	n := &node{config: c, log: log, metrics: newRegistry()}
	if c.TLSCert != "" {
		if n.cert, err = loadCertificate(c.TLSCert, c.TLSKey); err != nil {
			return nil, err
		}
	}
	if n.connections, err = c.newConnections(); err != nil {
		return nil, err
	}
	n.connections.Register(n.metrics)
	if n.stores, err = openStores(ctx, c.Places); err != nil {
		return nil, err
	}
	n.stores.register(n.metrics)
	if err := n.openServices(ctx); err != nil {
		return nil, errors.Join(err, n.stores.Close())
	}
	return n, nil
}

// openServices puts the services on the stores, and the HTTP interface before
// them.
func (n *node) openServices(ctx context.Context) error {
	c := n.config
	opt := n.stores.options(c.Places, c.grace())
	opt.VerifyTTL, opt.AllowLargeSweep = c.VerifyTTL, c.AllowLargeSweep
	if fenced := opt.MayDelete; c.Places.shared() {
		// A node with a longer grace may still send what this one would free.
		opt.MayDelete = func(ctx context.Context) error { return errors.Join(n.members.err(), fenced(ctx)) }
	}
	n.blobs = blob.New(n.stores.meta, n.stores.bytes, opt)
	n.metrics.MustRegister(backlogMetrics{n.blobs.GarbageBacklog})
	if c.Profile == hosted {
		n.keys = access.NewKeys(n.stores.meta, access.AuthenticatorOptions{})
	}
	var payment wire.Payment
	var err error
	if n.channels, payment, err = c.newChannels(ctx, n.stores); err != nil {
		return err
	}
	if c.Places.shared() {
		n.members = newMembership(n.stores.meta, c.settings(n.channels), n.log)
		if err := n.members.start(ctx); err != nil {
			return err
		}
		n.stores.close = append(n.stores.close, n.members.leave)
	}
	if n.api, err = n.newAPI(payment); err != nil {
		return err
	}
	n.metrics.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sluice_settlements_expired", Help: "Channels with a payment that expired before it was collected, on the node that settles.",
		}, func() float64 { channels, _ := n.channels.Uncollected(); return float64(channels) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sluice_settlements_expired_units", Help: "What these channels have accepted and not settled, in units of the asset.",
		}, func() float64 { _, amount := n.channels.Uncollected(); return float64(amount) }),
	)
	n.returns.Replay(ctx)
	return nil
}

// work does what is done beside the requests, until ctx ends.
func (n *node) work(ctx context.Context, reload <-chan os.Signal) {
	report := func(task string, err error) { n.log.Error("background task failed", "task", task, "error", err) }
	forAll := func(ctx context.Context) {
		var tasks sync.WaitGroup
		tasks.Go(func() { n.blobs.Run(ctx, report) })
		tasks.Go(func() { n.channels.Run(ctx, nil, report) })
		tasks.Wait()
	}
	var tasks sync.WaitGroup
	if n.config.Places.shared() {
		tasks.Go(func() { lead(ctx, boottime.Now, n.stores.meta, backgroundLease, report, forAll) })
	} else {
		tasks.Go(func() { forAll(ctx) })
	}
	tasks.Go(func() { n.returns.Run(ctx) })
	if n.keys != nil {
		tasks.Go(func() { n.keys.Run(ctx, func(err error) { report("watch keys", err) }) })
	}
	tasks.Go(func() { watchClock(ctx, n.stores.meta, time.Now, n.log) })
	if n.stores.fence != nil {
		tasks.Go(func() { n.stores.fence.Watch(ctx, n.fenceChanged) })
	}
	if n.members != nil {
		tasks.Go(func() { n.members.watch(ctx) })
	}
	if n.cert != nil {
		tasks.Go(func() { n.cert.watch(ctx, reload, n.log) })
	}
	tasks.Wait()
}

// fenceChanged logs what the fence has found, and deletes what waited for it.
func (n *node) fenceChanged(err error) {
	switch {
	case err == nil:
		n.log.Info("no other database works on these bytes: deletions go on")
		n.blobs.FreeSoon()
	case errors.Is(err, blob.ErrFenceWaits):
	default:
		n.log.Error("deletions have stopped", "error", err)
	}
}

// server gives the HTTP server, and puts the listeners under the cap of
// connections.
func (n *node) server(listeners []net.Listener) *drainingServer {
	server := &drainingServer{api: n.api, http: httpapi.NewHTTPServer(n.api, n.log), connections: n.connections}
	n.connections.Attach(server.http)
	for i, l := range listeners {
		listeners[i] = n.connections.Listener(l, n.cert != nil)
	}
	if n.cert != nil {
		server.http.TLSConfig = n.cert.config()
	}
	return server
}

// ready tells why nothing can be written now.
func (n *node) ready(ctx context.Context) error {
	err := errors.Join(n.stores.ready(ctx), n.stores.meta.ClockErr())
	if n.members != nil {
		err = errors.Join(err, n.members.err())
	}
	return err
}

// newAPI puts the services behind the HTTP interface.
func (n *node) newAPI(payment wire.Payment) (*httpapi.Server, error) {
	c, stores := n.config, n.stores
	grant := int64(session.DefaultGrant)
	if c.Profile == hosted || c.Reads == string(httpapi.ReadsPaid) {
		grant = 0
	}
	proxies, err := c.trustedProxies()
	if err != nil {
		return nil, err
	}
	sessions := session.New(stores.meta, session.Options{Grant: grant, TTL: c.SessionTTL, Space: stores.space})
	if n.returns, err = metering.NewReturns(sessions, n.channels, filepath.Join(c.Places.Data, returnsDir), n.log, n.metrics); err != nil {
		return nil, err
	}
	return httpapi.New(httpapi.Config{
		Version:  version(),
		BasePath: c.BasePath,
		URL:      c.ExternalURL,
		Blobs:    n.blobs,
		Sessions: sessions,
		Channels: n.channels,
		Returns:  n.returns,
		Reads:    httpapi.Reads(c.Reads),
		Payment:  payment,
		Keys:     n.keys,
		Limiter: access.NewLimiter(access.LimiterOptions{
			Key:     c.Key.limits(),
			Address: c.Address.limits(),
			Usage:   stores.meta,
		}),
		TrustedProxies: proxies,
		MaxRequests:    int64(c.MaxRequests),
		Metrics:        n.metrics,
		Local:          httpapi.Local{AllowedHosts: c.AllowedHosts, CORSOrigins: c.CORSOrigins, OpenToNetwork: c.OpenToNetwork},
		Ready:          n.ready,
		Log:            n.log,
	})
}

// newChannels gives the channels of this instance, and what is published of how
// they are paid.
func (c *config) newChannels(ctx context.Context, stores *stores) (*paychan.Service, wire.Payment, error) {
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
func (c *config) receiver(ctx context.Context, facts metastore.Properties) (string, error) {
	if c.Receiver != "" {
		return c.Receiver, nil
	}
	const fact = "receiver"
	receiver, err := facts.Property(ctx, fact)
	if !errors.Is(err, metastore.ErrNotFound) {
		return receiver, err
	}
	receiver = paychan.NewReceiver()
	err = facts.SetProperty(ctx, fact, receiver)
	if errors.Is(err, metastore.ErrExists) { // another node was first
		return facts.Property(ctx, fact)
	}
	return receiver, err
}
