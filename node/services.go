package node

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sluice/access"
	"sluice/access/sealed"
	"sluice/admin"
	"sluice/blob"
	"sluice/collect"
	"sluice/console"
	"sluice/database"
	"sluice/exchange"
	"sluice/feed"
	"sluice/httpapi"
	"sluice/internal/datadir"
	"sluice/metastore"
	"sluice/metering"
	"sluice/paychan"
	"sluice/session"
	"sluice/wire"
)

// openServices creates the services on the stores, and the HTTP interface on them.
func (n *Node) openServices(ctx context.Context) (err error) {
	c := &n.config
	n.blobs = n.newBlobs()
	if n.aliases, err = blob.LoadAliases(ctx, n.stores.Meta); err != nil {
		return err
	}
	n.places = access.NewPlaces(n.stores.Meta, c.Reads, 0)
	n.census = newCensus(n.stores.Meta.Census)
	n.board = newTaskBoard(n.stores.Meta, n.tasks.control, c.nodeName(), n.log)
	if n.secrets, err = c.openSecrets(); err != nil {
		return err
	}
	if c.Profile == Hosted {
		n.s3Secrets = n.secrets
		n.keys = access.NewAuthenticator(n.stores.Meta, access.AuthenticatorOptions{S3: n.s3Secrets, Unopened: n.reportUnopened})
	}
	if n.channels, err = n.newChannels(ctx); err != nil {
		return err
	}
	if c.Location.Shared() {
		n.members = newMembership(n.stores.Meta, c.settings(n.channels, n.secrets), n.self, n.log)
		if err := n.members.start(ctx); err != nil {
			return err
		}
		n.stores.AtClose(n.members.leave)
	}
	if err := recordPlace(ctx, n.stores.Meta, c.place(n.channels), n.log); err != nil {
		return err
	}
	if n.receiver != nil {
		if err := n.openCollector(ctx); err != nil {
			return err
		}
	}
	n.feed = feed.New(n.stores.Meta, feed.Options{Failed: func(err error) { n.log.Error("changes cannot be read for those who wait for them", "error", err) }})
	n.stores.AtClose(func() error { n.feed.Close(); return nil })
	if n.webhooks, err = n.newWebhooks(); err != nil {
		return err
	}
	if n.api, err = n.newAPI(); err != nil {
		return err
	}
	if n.stores.History.MayCommit() == nil {
		n.returns.Replay(ctx)
	}
	return nil
}

// reportUnopened logs that a key's S3 secret cannot be opened.
func (n *Node) reportUnopened(key string, err error) {
	hint := "give the key a new one with sluice key update --s3"
	if errors.Is(err, sealed.ErrUnknownMaster) {
		hint = "add the key that sealed it to " + s3SecretKeyFlag
	}
	n.log.Error("an S3 secret cannot be opened, so its key signs nothing", "key", key, "error", err, "remedy", hint)
}

// openReceiver opens the account that is paid on the chain, if there is one, and sets the receiver.
func (n *Node) openReceiver(ctx context.Context) (err error) {
	if n.receiver, err = n.config.openReceiver(n.now); n.receiver == nil || err != nil {
		return err
	}
	n.config.Receiver = n.receiver.signer.Address().String()
	return n.receiver.start(ctx, n.log)
}

// now returns the stores' time, or this machine's before they are open.
func (n *Node) now() time.Time {
	if n.stores == nil {
		return time.Now()
	}
	return n.stores.Meta.Now()
}

// openCollector opens the collector of payments, and logs if it has halted.
func (n *Node) openCollector(ctx context.Context) error {
	n.collector = collect.New(n.stores.Meta, collect.Options{Chain: n.receiver.chain, Receiver: n.receiver.signer, CoinPrice: n.config.CoinPrice})
	halt, err := n.stores.Meta.Halted(ctx)
	if err == nil && halt != "" {
		n.log.Error("settling has halted: nothing is sold or collected on the chain until sluice resume settling", "reason", halt)
	}
	return err
}

func (n *Node) newBlobs() *blob.Service {
	opt := n.stores.BlobOptions()
	opt.GarbageGrace = n.config.GarbageGrace
	opt.VerifyTTL = n.config.VerifyTTL
	opt.PurgeEvery, opt.SweepEvery, opt.ScrubPeriod = n.config.tuning().PurgeEvery, n.config.tuning().SweepEvery, n.config.ScrubPeriod
	opt.PurgeMore = func(ctx context.Context, limit int) (int, error) {
		return n.stores.Meta.PurgeActions(ctx, n.config.ActionsKeep, limit)
	}
	opt.ChangesKeep = n.config.ChangesKeep
	opt.Found = n.damageFound
	opt.Busy = func() bool { return n.api.Busy() } // the tasks run once it is set
	if fenced := opt.MayDelete; n.config.Location.Shared() {
		// A node with a longer grace period may still send contents that this node would free.
		opt.MayDelete = func(ctx context.Context) error { return errors.Join(n.members.err(), fenced(ctx)) }
	}
	return blob.New(n.stores.Meta, n.stores.Bytes, opt)
}

// damageFound logs damage that was found.
func (n *Node) damageFound(d metastore.Damage) {
	n.log.Error("stored bytes are damaged: sluice check --recorded names the blobs, and the runbook names the remedy",
		"content", d.Content.String(), "part", d.Part, "offset", d.Offset, "object", d.Object, "reason", d.Reason)
}

func (n *Node) newChannels(ctx context.Context) (*paychan.Service, error) {
	c, t := &n.config, n.config.tuning()
	receiver, err := c.receiver(ctx, n.stores.Meta)
	if err != nil {
		return nil, err
	}
	var onChain *paychan.ChainOptions
	if n.receiver != nil {
		onChain = &paychan.ChainOptions{
			Read:            collect.Reader{Chain: n.receiver.chain, Receiver: n.receiver.signer.Address()}.Read,
			Simulate:        n.receiver.simulate,
			AccountSequence: n.receiver.chain.AccountSequence,
			GasPrices:       n.receiver.gasPrices,
			Ahead:           n.receiver.clock.ahead,
			Refresh:         t.ChannelRefresh,
			StartingLimit:   t.StartingLimit,
			SettleAt:        t.SettleAt,
			SettleWithin:    t.SettleWithin,
			MaxFee:          t.MaxFee,
			Worth:           func(gas, price uint64) int64 { return collect.FeeUnits(gas, price, c.CoinPrice) },
		}
	}
	return paychan.New(n.stores.Meta, paychan.Options{
		Chain:          onChain,
		TTL:            t.ChannelTTL,
		Space:          n.stores.Space,
		NewID:          n.stores.History.NewID,
		SessionTTL:     t.SessionTTL,
		Receiver:       receiver,
		Asset:          c.PaidOn.Asset,
		Module:         c.PaidOn.Module,
		ChainID:        c.PaidOn.ID,
		Price:          c.ChunksetPrice,
		Deposit:        paychan.DefaultDeposit,
		UnsettledLimit: c.UnsettledLimit,
	})
}

// receiver returns the address that is paid: the configured one, or one that the
// first start generates and stores.
func (c *Config) receiver(ctx context.Context, properties database.Properties) (string, error) {
	if c.Receiver != "" {
		return c.Receiver, nil
	}
	const name = "receiver"
	receiver, err := properties.Property(ctx, name)
	if !errors.Is(err, database.ErrNotFound) {
		return receiver, err
	}
	receiver = paychan.NewReceiver()
	err = properties.SetProperty(ctx, name, receiver)
	if errors.Is(err, database.ErrExists) { // another node was faster
		return properties.Property(ctx, name)
	}
	return receiver, err
}

// settlement returns where accepted micropayments are collected.
func (c *Config) settlement() string {
	if len(c.ChainURLs) > 0 {
		return wire.SettlementChain
	}
	return wire.SettlementLedger
}

// payment returns the payment terms for clients.
func (n *Node) payment() wire.Payment {
	payment := wire.Payment{
		ChainID:        int(n.config.PaidOn.ID),
		ChunksetPrice:  strconv.FormatInt(n.config.ChunksetPrice, 10),
		UnsettledLimit: strconv.FormatInt(n.config.UnsettledLimit, 10),
	}
	payment.Settlement = n.config.settlement()
	payment.Receiver, payment.Asset, payment.Module = n.channels.Payee()
	return payment
}

// newAdmin returns the rules of administration, or nil if administrators are not served.
func (n *Node) newAdmin() *admin.Service {
	if n.config.AdminAPI == AdminOff {
		return nil
	}
	return admin.New(n.stores.Meta, admin.Options{
		S3: n.s3Secrets, KeyLimits: n.config.KeyLimits, Places: n.places, Nodes: n.nodes, TaskChanged: n.board.lookNow, SettingsChanged: n.blobs.ForgetSettings,
		Webhooks: &admin.WebhookOptions{Secrets: n.secrets, CheckURL: n.webhooks.CheckURL, Test: n.webhooks.Test},
	})
}

// newAPI creates the HTTP interface on the services.
func (n *Node) newAPI() (*httpapi.Server, error) {
	c, stores := &n.config, n.stores
	grant := int64(session.DefaultGrant)
	if c.Profile == Hosted || c.Reads == access.ReadsPaid {
		grant = 0
	}
	proxies, err := parseProxies("--trusted-proxies", c.TrustedProxies)
	if err != nil {
		return nil, err
	}
	n.sessions = session.New(stores.Meta, session.Options{NewID: stores.History.NewID, Grant: grant, TTL: c.tuning().SessionTTL, Space: stores.Space})
	if n.returns, err = metering.NewReturns(n.sessions, n.channels, filepath.Join(c.Location.Data, datadir.Returns), n.log); err != nil {
		return nil, err
	}
	var page *console.Console
	if c.Console {
		if page, err = console.New(); err != nil {
			return nil, err
		}
	}
	n.limiter = access.NewLimiter(access.LimiterOptions{Key: c.KeyLimits, Address: c.AddressLimits, Usage: stores.Meta})
	return httpapi.New(httpapi.Config{
		Config: exchange.Config{
			Keys:           n.keys,
			Local:          exchange.Local{AllowedHosts: c.AllowedHosts, CORSOrigins: c.CORSOrigins, OpenToNetwork: c.OpenToNetwork},
			Ready:          n.ready,
			History:        stores.History,
			Log:            n.log,
			RequestLog:     n.requestLog,
			LoggedRequests: c.LogRequests,
			LogPaths:       c.LogPaths,
			AuditLog:       n.audit,
			AuditReads:     strings.HasPrefix(c.AuditLog, auditReads),
			Limiter:        n.limiter,
			TrustedProxies: proxies,
			MaxRequests:    int64(c.MaxRequests),
			Metrics:        n.metrics,
			Tracer:         n.tracer,
		},
		Version:            c.Version,
		BasePath:           c.BasePath,
		URL:                c.ExternalURL,
		Blobs:              n.blobs,
		Changes:            n.feed,
		Sessions:           n.sessions,
		Channels:           n.channels,
		Returns:            n.returns,
		Reads:              c.Reads,
		Places:             n.places,
		PublicCacheControl: c.PublicCacheControl,
		Payment:            n.payment(),
		Inspection:         n.stores.Meta,
		Census:             n.census.recent,
		Console:            page,
		Admin:              n.newAdmin(),
		AdminApart:         c.AdminAPI == AdminApart,
		Faucet:             c.faucet(),
		Faults:             c.Faults,
	})
}
