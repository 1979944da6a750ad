package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"sluice/blob"
	"sluice/collect"
	"sluice/httpapi"
	"sluice/internal/contexts"
	"sluice/internal/logbuffer"
	"sluice/internal/node"
	"sluice/internal/storage"
	"sluice/metastore"
	"sluice/paychan"
	"sluice/session"
)

// serveFlags are the flags of serve. Each has an environment variable (--base-path
// is SLUICE_BASE_PATH) and a key in the configuration file (base-path). The flag
// overrides the variable, and the variable overrides the file.
type serveFlags struct {
	Config  configFlag   `placeholder:"FILE" help:"YAML file with flags, such as base-path: /sluice. Environment variables and flags override it."`
	Profile node.Profile `default:"local" enum:"local,hosted" help:"local: for development, without keys, on this machine only. hosted: for a network, with API keys."`

	logFlags     `embed:"" group:"Log:"`
	networkFlags `embed:"" group:"Network:"`
	callerFlags  `embed:"" group:"Callers:"`
	paymentFlags `embed:"" group:"Payments:"`
	storageFlags `embed:"" group:"Storage:"`
	drainFlags   `embed:"" group:"Shutdown:"`
	faultFlags   `embed:"" group:"Faults of a local instance:"`

	MaxRequests              int        `group:"Limits:" default:"4096" help:"Maximum number of concurrent requests of all callers. Those without a key get at most three quarters."`
	MaxConnections           int        `group:"Limits:" placeholder:"N" help:"Maximum number of connections. Default: what the limit of open files allows, at most ${max_connections}."`
	MaxConnectionsPerAddress count      `group:"Limits:" placeholder:"N" help:"Maximum number of connections of one address (IPv6: of one /64), except trusted proxies, or unlimited. Default: unlimited; a quarter of all if hosted."`
	Key                      limitFlags `group:"Limits:" embed:"" prefix:"key-" set:"whose=the keys of a group"`
	Address                  limitFlags `group:"Limits:" embed:"" prefix:"address-" set:"whose=callers without a key that share an address"`
}

type logFlags struct {
	LogFormat   logbuffer.Format       `default:"text" enum:"text,json" help:"Format of the log: text (key=value) or json (an object a line)."`
	LogLevel    slog.Level             `default:"info" placeholder:"LEVEL" help:"Lowest level to log: debug (includes health checks and preflight requests), info, warn or error. Default: info."`
	LogRequests httpapi.LoggedRequests `default:"all" enum:"all,errors,none" help:"Requests to log: all, errors (with a status from 400 on, or a response that was cut) or none, not even those with 500."`
}

type networkFlags struct {
	Addr           string   `default:"localhost:9090" help:"Address to listen on. Host localhost means both loopback addresses, port 0 any free port."`
	AdminAddr      string   `placeholder:"HOST:PORT" help:"Address for metrics and profiles, or off. Default: off; localhost:9091 if hosted."`
	TLSCert        string   `name:"tls-cert" placeholder:"FILE" help:"Certificate chain in PEM with which to serve TLS. It is reloaded when the file changes, and on SIGHUP."`
	TLSKey         string   `name:"tls-key" placeholder:"FILE" help:"Private key of the certificate, in PEM."`
	Console        *bool    `negatable:"" help:"Serve the web console at /console/, and lead browsers there from / if local. Default: on if local, off if hosted."`
	BasePath       string   `placeholder:"/NAME" help:"Path under which to serve. Default: the root; required if hosted."`
	ExternalURL    string   `name:"external-url" placeholder:"URL" help:"Base URL by which clients reach the service, including the base path. Required if hosted."`
	TrustedProxies []string `placeholder:"CIDR" help:"Proxies that may set the address of a client in X-Forwarded-For."`
	AllowedHosts   []string `placeholder:"HOST" help:"Additional host names to accept in requests. Local profile only."`
	CORSOrigins    []string `name:"cors-origins" placeholder:"ORIGIN" help:"Additional origins whose pages may use the service. Local profile only."`
}

type callerFlags struct {
	Reads              httpapi.Reads `placeholder:"WHO" help:"Who may read blobs: public (everyone), key (keys for the account), or paid (callers who pay, and keys for the account). Default: public; required if hosted."`
	PublicCacheControl string        `placeholder:"VALUE" help:"Cache-Control of blobs whose writer has stated none, with reads that are public, such as 'public, max-age=300' for a CDN in front. Default: no-cache. Hosted profile only."`
	OpenToNetwork      bool          `help:"Allow an address that is not loopback. Everyone who can connect to it can read and write everything. Local profile only."`
}

type paymentFlags struct {
	Receiver           string         `placeholder:"ADDRESS" help:"Address that receives payments. Default: an address generated for this instance; required if hosted."`
	Asset              string         `default:"${asset}" placeholder:"ADDRESS" help:"Metadata address of the asset in which to pay. Default: that of the public client."`
	MicropaymentModule string         `default:"${module}" placeholder:"ADDRESS" help:"Address that deployed the module which micropayments call. Default: that of the public client."`
	ChainID            uint8          `name:"chain-id" default:"${chain_id}" help:"Chain on which micropayments are collected."`
	ChunksetPrice      int64          `default:"${price}" help:"Price of a chunkset in units of the asset, at least 1. Changing it does not affect chunksets already bought."`
	SessionTTL         time.Duration  `name:"session-ttl" default:"${session_ttl}" help:"Lifetime of a session."`
	ChannelTTL         time.Duration  `name:"channel-ttl" default:"${channel_ttl}" help:"Lifetime of a channel, unless the request chooses another."`
	UnsettledLimit     int64          `default:"${unsettled_limit}" help:"Maximum amount that a channel may have accepted and not settled, in units of the asset."`
	ChainURL           []string       `name:"chain-url" placeholder:"URL" help:"Fullnodes of the chain on which to collect payments, such as https://node.example.org/v1, in the order in which to ask them. Plain http is accepted for loopback addresses only. Default: none; payments are recorded in the embedded ledger and not collected."`
	ChainAPIKeyFile    string         `name:"chain-api-key-file" type:"path" placeholder:"FILE" help:"File with the API key that the fullnodes require, which only its owner may access."`
	ReceiverKeyFile    string         `type:"path" placeholder:"FILE" help:"File with the private key of the receiver, which signs what is collected: 64 hexadecimal digits after ed25519-priv-0x or secp256k1-priv-0x. Only its owner may access it (mode 0600 or 0400). Required with --chain-url."`
	StartingLimit      *int64         `placeholder:"N" help:"Maximum amount that a channel of the chain may have accepted and not settled before anything was collected over it, in units of the asset. It grows by what is collected, up to --unsettled-limit. Default: a hundredth of --unsettled-limit, but at least the price of 100 chunksets."`
	SettleAt           *int64         `placeholder:"N" help:"Unsettled amount of a channel at which it is collected on the chain, in units of the asset. Default: half of --unsettled-limit. A micropayment is collected after half of its life at the latest."`
	SettleWithin       *time.Duration `placeholder:"DURATION" help:"Time within which an accepted micropayment is collected on the chain, however long it lives. Default: ${settle_within}."`
	SettleParallel     *int           `placeholder:"N" help:"Maximum number of submissions to the chain that are sent concurrently, and of other calls of it. Default: ${settle_parallel}."`
	MaxSettleGas       *uint64        `placeholder:"N" help:"Highest fee of a micropayment to accept, its maximum gas times its gas price, in the smallest coin of the chain: the receiver pays it. Default: ${max_settle_gas}."`
	CoinPrice          *int64         `placeholder:"N" help:"What a coin of the chain (10^8 of its smallest coin) is worth in units of the asset. Micropayments that cost more gas than they pay are refused. Default: not known; fees are not compared."`
	ChannelRefresh     *time.Duration `placeholder:"DURATION" help:"Age at which a channel is read from the chain again before it sells. Default: ${channel_refresh}."`
	ResumeSettling     bool           `help:"Resume settling on the chain, which halts if what the chain shows after a collection is not what was expected."`
}

type storageFlags struct {
	metaFlags

	Bytes           string         `placeholder:"DSN" help:"Object store for the bytes, such as s3://BUCKET/PREFIX?endpoint=https://HOST. Default: files in the data folder."`
	Cache           string         `placeholder:"DIR" help:"Folder in which to cache bytes from an object store. Default: no cache."`
	CacheSize       size           `default:"10GiB" help:"Maximum size of the cache."`
	StagingSize     size           `default:"1GiB" help:"Maximum size of the request bodies being sent to an object store, which are staged in memory (up to 64 MiB) and in the data folder; at least 32MiB."`
	BlobCache       size           `default:"64MiB" help:"Maximum size of the cache, in memory, of blobs up to 16 KiB that are read often, and of the rows of larger ones. It is not used with PostgreSQL."`
	VerifyTTL       time.Duration  `name:"verify-ttl" default:"10m" help:"How long a block is served after its checksum was verified before it is verified again; 0 to verify each read. Fractions of a second are ignored."`
	GarbageGrace    *time.Duration `placeholder:"DURATION" help:"How long to keep the bytes of deleted blobs; unless it is 0, a download is cut after this time minus one minute. Default: 0s; 24h with PostgreSQL."`
	PurgeEvery      time.Duration  `default:"${purge_every}" help:"Interval at which expired blobs, idle uploads and other records whose time is over are removed."`
	SweepEvery      time.Duration  `default:"${sweep_every}" help:"Interval at which all objects are listed, and those that nothing refers to are removed. The first time is at most 5 minutes after the start."`
	AllowLargeSweep bool           `help:"Allow the sweep for orphaned objects to delete more than its safety limit."`
	Ephemeral       bool           `help:"Keep everything in memory and in a temporary folder, and remove it when the server stops. Local profile only."`
	Seed            string         `placeholder:"DIR" help:"Store the files of a folder at the start: DIR/ACCOUNT/NAME becomes the blob NAME of ACCOUNT. Blobs that exist are kept. Local profile only."`
}

// metaFlags say where the metadata is.
type metaFlags struct {
	Data string `default:"${data}" help:"Data folder, for everything that is not stored elsewhere. serve and key create create it, with mode 0700. A folder with other files is refused."`
	Meta string `placeholder:"DSN" help:"PostgreSQL database for the metadata, such as postgres://HOST/NAME. Default: a SQLite database in the data folder."`
}

type drainFlags struct {
	DrainWait     *time.Duration `placeholder:"DURATION" help:"How long to keep serving after SIGTERM while /readyz reports 503, so that load balancers can notice. Default: 0s; 5s if hosted."`
	DrainDeadline time.Duration  `default:"30s" help:"How long running requests may take to complete after that."`
}

// faultFlags make requests fail, for tests of clients.
type faultFlags struct {
	Fault     []string `sep:"none" placeholder:"RULE" help:"Make requests fail, such as 'PUT part 2%: drop-reply' or 'GET blob first 1: cut 64KiB'. It can be repeated. Faults: delay DURATION, status CODE, cut BYTES, drop-reply, slow BYTES, expired-session, full-disk."`
	FaultSeed uint32   `default:"1" placeholder:"N" help:"Seed of the random choices of faults."`
}

func (f metaFlags) location() storage.Location {
	return storage.Location{Data: f.Data, Meta: f.Meta}
}

// defaultData is the default of --data.
const defaultData = "./sluice-data"

// flagDefaults are the defaults that are defined elsewhere.
func flagDefaults() map[string]string {
	return map[string]string{
		"data":            defaultData,
		"asset":           paychan.DefaultAsset,
		"module":          paychan.DefaultModule,
		"chain_id":        strconv.Itoa(paychan.DefaultChainID),
		"price":           strconv.Itoa(paychan.DefaultPrice),
		"unsettled_limit": strconv.Itoa(paychan.DefaultUnsettledLimit),
		"settle_parallel": strconv.Itoa(collect.DefaultParallel),
		"max_settle_gas":  strconv.Itoa(collect.DefaultMaxFee),
		"channel_refresh": defaultChannelRefresh.String(),
		"settle_within":   hours(defaultSettleWithin),
		"session_ttl":     hours(session.DefaultTTL),
		"channel_ttl":     hours(paychan.DefaultTTL),
		"purge_every":     blob.DefaultPurgeEvery.String(),
		"sweep_every":     hours(blob.DefaultSweepEvery),
		"max_connections": strconv.Itoa(node.MaxDefaultConnections),
		"default_url":     contexts.DefaultURL,
	}
}

func hours(d time.Duration) string { return strconv.Itoa(int(d/time.Hour)) + "h" }

// adminOff is the value of --admin-addr for no admin address.
const adminOff = "off"

// profileDefaults are the defaults that depend on the profile.
type profileDefaults struct {
	adminAddr string
	reads     httpapi.Reads // "": it is required
	console   bool
	drainWait time.Duration
	key       metastore.Limits
	address   metastore.Limits
}

var (
	localDefaults = profileDefaults{
		adminAddr: adminOff,
		reads:     httpapi.ReadsPublic,
		console:   true,
		key:       metastore.NoLimits(),
		address:   metastore.NoLimits(),
	}
	hostedDefaults = profileDefaults{
		adminAddr: "localhost:9091",
		drainWait: 5 * time.Second, // enough for a load balancer to poll /readyz
		key: metastore.Limits{
			RequestsPerSecond: 1000, BytesInPerSecond: 512 << 20, BytesOutPerSecond: 512 << 20, ConcurrentRequests: 1024,
		}.Or(metastore.NoLimits()),
		address: metastore.Limits{
			RequestsPerSecond: 100, BytesInPerSecond: 32 << 20, BytesOutPerSecond: 32 << 20, ConcurrentRequests: 64,
		}.Or(metastore.NoLimits()),
	}
)

// sharedGarbageGrace is the default of --garbage-grace if several nodes may run. A
// single node knows its readers, so it needs no grace period.
const sharedGarbageGrace = 24 * time.Hour

// defaultChannelRefresh is the default of --channel-refresh.
const defaultChannelRefresh = 30 * time.Second

// defaultSettleWithin is the default of --settle-within.
const defaultSettleWithin = 24 * time.Hour

// defaultStartingLimit returns the default of --starting-limit: little of what is trusted in the end, but enough for what the
// Go client buys at once.
func (c *serveFlags) defaultStartingLimit() int64 {
	const purchase = 100 // chunksets
	return max(1, min(c.UnsettledLimit, max(c.UnsettledLimit/100, metastore.Cost(purchase, max(1, c.ChunksetPrice)))))
}

// Validate reports all errors.
func (c *serveFlags) Validate() error {
	var err error
	if c.Profile == node.Local && c.Key.limits() != (metastore.Limits{}) {
		err = errors.New("the limits --key-... require the hosted profile: a local instance has no keys to limit")
	}
	config := c.nodeConfig()
	return errors.Join(err, c.validateEphemeral(), c.validateSettling(), config.Validate())
}

// validateSettling rejects settings of collections on a chain if there is none.
func (c *serveFlags) validateSettling() error {
	if len(c.ChainURL) > 0 {
		return nil
	}
	var errs []error
	for _, useless := range []struct {
		set  bool
		flag string
	}{
		{c.StartingLimit != nil, "--starting-limit"},
		{c.SettleAt != nil, "--settle-at"},
		{c.SettleWithin != nil, "--settle-within"},
		{c.SettleParallel != nil, "--settle-parallel"},
		{c.MaxSettleGas != nil, "--max-settle-gas"},
		{c.CoinPrice != nil, "--coin-price"},
		{c.ChannelRefresh != nil, "--channel-refresh"},
		{c.ResumeSettling, "--resume-settling"},
	} {
		if useless.set {
			errs = append(errs, fmt.Errorf("%s: requires --chain-url; without a chain nothing is collected", useless.flag))
		}
	}
	return errors.Join(errs...)
}

// validateEphemeral rejects the settings that name where something is kept.
func (c *serveFlags) validateEphemeral() error {
	switch {
	case !c.Ephemeral:
		return nil
	case c.Profile == node.Hosted:
		return errors.New("--ephemeral: requires the local profile")
	case c.Meta != "" || c.Bytes != "":
		return errors.New("--ephemeral: keeps nothing, so it excludes --meta and --bytes")
	case c.Data != defaultData:
		return errors.New("--ephemeral: keeps nothing, so it excludes --data")
	}
	return nil
}

// nodeConfig returns the configuration of the node, defaults included.
func (c *serveFlags) nodeConfig() node.Config {
	d := localDefaults
	if c.Profile == node.Hosted {
		d = hostedDefaults
	}
	config := node.Config{
		Version:            version(),
		LogRequests:        c.LogRequests,
		Profile:            c.Profile,
		Addr:               c.Addr,
		AdminAddr:          cmp.Or(c.AdminAddr, d.adminAddr),
		TLSCert:            c.TLSCert,
		TLSKey:             c.TLSKey,
		Console:            valueOr(c.Console, d.console),
		BasePath:           c.BasePath,
		ExternalURL:        c.ExternalURL,
		TrustedProxies:     c.TrustedProxies,
		AllowedHosts:       c.AllowedHosts,
		CORSOrigins:        c.CORSOrigins,
		OpenToNetwork:      c.OpenToNetwork,
		Reads:              cmp.Or(c.Reads, d.reads),
		PublicCacheControl: c.PublicCacheControl,
		Receiver:           c.Receiver,
		Asset:              c.Asset,
		MicropaymentModule: c.MicropaymentModule,
		ChainID:            c.ChainID,
		ChunksetPrice:      c.ChunksetPrice,
		SessionTTL:         c.SessionTTL,
		ChannelTTL:         c.ChannelTTL,
		UnsettledLimit:     c.UnsettledLimit,
		ChainURLs:          c.ChainURL,
		ChainAPIKeyFile:    c.ChainAPIKeyFile,
		ReceiverKeyFile:    c.ReceiverKeyFile,
		StartingLimit:      valueOr(c.StartingLimit, c.defaultStartingLimit()),
		SettleAt:           valueOr(c.SettleAt, max(1, c.UnsettledLimit/2)),
		SettleWithin:       valueOr(c.SettleWithin, defaultSettleWithin),
		SettleParallel:     valueOr(c.SettleParallel, collect.DefaultParallel),
		MaxSettleGas:       valueOr(c.MaxSettleGas, collect.DefaultMaxFee),
		CoinPrice:          valueOr(c.CoinPrice, 0),
		ChannelRefresh:     valueOr(c.ChannelRefresh, defaultChannelRefresh),
		ResumeSettling:     c.ResumeSettling,

		Location:        storage.Location{Data: c.Data, Meta: c.Meta, Bytes: c.Bytes},
		Storage:         storage.Options{Cache: c.Cache, CacheSize: int64(c.CacheSize), StagingSize: int64(c.StagingSize), BlobCache: int64(c.BlobCache)},
		VerifyTTL:       c.VerifyTTL,
		PurgeEvery:      c.PurgeEvery,
		SweepEvery:      c.SweepEvery,
		AllowLargeSweep: c.AllowLargeSweep,
		Seed:            c.Seed,

		Faults:    c.Fault,
		FaultSeed: c.FaultSeed,

		DrainWait:     valueOr(c.DrainWait, d.drainWait),
		DrainDeadline: c.DrainDeadline,

		MaxRequests:              c.MaxRequests,
		MaxConnections:           c.MaxConnections,
		MaxConnectionsPerAddress: int64(c.MaxConnectionsPerAddress),
		KeyLimits:                c.Key.limits().Resolve(d.key),
		AddressLimits:            c.Address.limits().Or(d.address),
	}
	if config.AdminAddr == adminOff {
		config.AdminAddr = ""
	}
	if c.GarbageGrace != nil {
		config.GarbageGrace = *c.GarbageGrace
	} else if config.Location.Shared() {
		config.GarbageGrace = sharedGarbageGrace
	}
	return config
}

// valueOr returns the value of a flag, or its default if the flag is not set.
func valueOr[T any](set *T, byDefault T) T {
	if set == nil {
		return byDefault
	}
	return *set
}
