package settings

import (
	"log/slog"
	"slices"
	"strconv"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/blob"
	"sluice/exchange"
	"sluice/httpapi"
	"sluice/integrity"
	"sluice/internal/logbuffer"
	"sluice/node"
	"sluice/paychan"
	"sluice/s3api"
	"sluice/storage"
)

// Configuration has the variables that the settings of serve set.
type Configuration struct {
	LogFormat logbuffer.Format
	LogLevel  slog.Level
	adminAddr string // or adminOff
	Ephemeral bool

	memoryCache              int64
	keyLimits, addressLimits limitList

	Node node.Config
}

// DefaultData is the default of --data.
const DefaultData = "./sluice-data"

// sharedGarbageGrace is the default of --garbage-grace if several nodes may run. A single node
// knows its readers, so it needs no grace period.
const sharedGarbageGrace = 24 * time.Hour

// The sections.
var (
	general   = section{}
	logging   = section{title: "Log:"}
	network   = section{title: "Network:"}
	callers   = section{title: "Callers:"}
	payments  = section{title: "Payments:"}
	stored    = section{title: "Storage:"}
	shutdown  = section{title: "Shutdown:"}
	faults    = section{title: "Faults of a local instance:", only: node.Local}
	Limits    = section{title: "Limits:"}
	keyLimits = section{title: "Limits:", only: node.Hosted}
)

// with returns rows in the section.
func (s section) with(rows []Setting) []Setting {
	for i := range rows {
		rows[i].Section = s
	}
	return rows
}

// Table returns the settings of serve, in the order in which its help lists them; they set
// c. Everything else derives from these rows: flags, variables, configuration keys, config print,
// checks, docs/flags.md and completion.
func Table(c *Configuration) []Setting {
	return slices.Concat(
		generalSettings(c), logSettings(c), networkSettings(c), callerSettings(c), paymentSettings(c), chainSettings(c),
		locationSettings(c), storageSettings(c), shutdownSettings(c), faultSettings(c),
		limitSettings(c), callerLimitSettings(c),
	)
}

func generalSettings(c *Configuration) []Setting {
	n := &c.Node
	return general.with([]Setting{
		{Name: "profile", Value: Constant(&n.Profile, "local"), choices: "local,hosted",
			Help: "local: for development, without keys, on this machine only. hosted: for a network, with API keys."},
	})
}

func logSettings(c *Configuration) []Setting {
	n := &c.Node
	return logging.with([]Setting{
		{Name: "log-format", Value: Constant(&c.LogFormat, "text"), choices: "text,json",
			Help: "Format of the log: text (key=value) or json (an object a line)."},
		{Name: "log-level", Value: Constant(&c.LogLevel, "info"), placeholder: "LEVEL", words: "info",
			Help: "Lowest level to log: debug (includes health checks and preflight requests), info, warn or error."},
		{Name: "log-requests", Value: Constant(&n.LogRequests, "all"), choices: "all,errors,none",
			Help: "Requests to log: all, errors (with a status from 400 on, or a response that was cut) or none, not even those with 500."},
		{Name: "audit-log", Value: optional(&n.AuditLog), placeholder: "[reads:]FILE",
			Help: "File for a line of JSON about each write, deletion, copy and move, with the id of the key and the name of the blob, or - for standard output. With reads: before it, reads have lines, too. SIGHUP reopens the file."},
	})
}

func networkSettings(c *Configuration) []Setting {
	n := &c.Node
	return network.with([]Setting{
		{Name: "addr", Value: Constant(&n.Addr, "localhost:9090"), Check: isListenAddress(&n.Addr),
			Help: "Address to listen on. Host localhost means both loopback addresses, port 0 any free port."},
		{Name: "s3-addr", Value: optional(&n.S3Addr), placeholder: "HOST:PORT", words: "localhost:9000 if local and that port is free, or else off",
			Check: isListenAddress(&n.S3Addr, "", node.S3Off),
			Help:  "Address for S3's interface to the same blobs, or off."},
		{Name: "s3-domain", Value: optional(&n.S3Domains), placeholder: "DOMAIN", Check: each(&n.S3Domains, s3api.CheckDomain),
			Help: "Domains below which each bucket is a host, as in BUCKET.DOMAIN, in addition to the path style. Other host names are then refused if hosted; a local instance has localhost in addition."},
		{Name: "s3-unsigned-payload", Value: optional(&n.S3Unsigned), only: node.Hosted, refusal: "a local instance accepts any S3 credentials",
			Help: "Accept bodies that no signature covers from everywhere, and not only over TLS and from this machine."},
		{Name: "s3-encrypted", Value: optional(&n.S3Encrypted),
			Help: "Declare that the disk, the database and the bucket encrypt all bytes that they store: S3's clients may then ask for AES256, and responses report it."},
		{Name: "s3-secret-key-file", Value: optional(&n.S3SecretKeys), placeholder: "FILE", tag: `type:"path"`,
			Help: "File with the keys that seal the S3 secrets of API keys, and the secrets of webhooks, 64 hexadecimal digits a line, the one that seals first. Only its owner may access it (mode 0600 or 0400), or, if that is root, the group of the server may also read it (0640 or 0440)."},
		{Name: "admin-addr", Value: perProfile(&n.Profile, &c.adminAddr, adminOff, "localhost:9091"), placeholder: "HOST:PORT", words: "off; localhost:9091 if hosted",
			Check: isListenAddress(&c.adminAddr, adminOff),
			Help:  "Address for metrics and profiles, or off."},
		{Name: "admin-api", Value: Constant(&n.AdminAPI, "public"), choices: "off,public,admin",
			Help: "Where administrators manage keys, limits and the instance over HTTP, with a key that has the scope admin: public (below the base path), admin (at --admin-addr) or off."},
		{Name: "tls-cert", Value: optional(&n.TLSCert), placeholder: "FILE",
			Help: "Certificate chain in PEM with which to serve TLS. It is reloaded when the file changes, and on SIGHUP."},
		{Name: "tls-key", Value: optional(&n.TLSKey), placeholder: "FILE",
			Help: "Private key of the certificate, in PEM."},
		{Name: "console", Value: perProfile(&n.Profile, &n.Console, true, false), tag: `negatable:""`, words: "on if local, off if hosted",
			Help: "Serve the web console at /console/, and lead browsers there from /."},
		{Name: "base-path", Value: optional(&n.BasePath), placeholder: "/NAME", words: "the root; required if hosted",
			required: ", such as /sluice", Check: passes(&n.BasePath, httpapi.CheckBasePath),
			Help: "Path under which to serve."},
		{Name: "external-url", Value: optional(&n.ExternalURL), placeholder: "URL",
			required: ", such as https://blobs.example.org/sluice",
			Help:     "Base URL by which clients reach the service, including the base path. Required if hosted."},
		{Name: "trusted-proxies", Value: optional(&n.TrustedProxies), placeholder: "CIDR", Check: each(&n.TrustedProxies, node.CheckProxy),
			Help: "Proxies that may set the address of a client in X-Forwarded-For."},
		{Name: "webhook-networks", Value: optional(&n.WebhookNetworks), placeholder: "CIDR", Check: each(&n.WebhookNetworks, node.CheckProxy),
			Help: "Networks to which webhooks are delivered in addition to public addresses. A local instance has the loopback addresses in addition."},
		{Name: "allowed-hosts", Value: optional(&n.AllowedHosts), placeholder: "HOST", Check: each(&n.AllowedHosts, exchange.CheckAllowedHost),
			only: node.Local, refusal: "the hosted profile accepts every host name",
			Help: "Additional host names to accept in requests."},
		{Name: "cors-origins", Value: optional(&n.CORSOrigins), placeholder: "ORIGIN", Check: each(&n.CORSOrigins, exchange.CheckOrigin),
			only: node.Local, refusal: "the hosted profile accepts every origin, because browsers never send keys on their own",
			Help: "Additional origins whose pages may use the service."},
	})
}

func callerSettings(c *Configuration) []Setting {
	n := &c.Node
	return callers.with([]Setting{
		{Name: "reads", Value: perProfile(&n.Profile, &n.Reads, access.ReadsPublic, ""), placeholder: "WHO", words: "public; required if hosted",
			required: ": public, key or paid",
			Help:     "Who may read blobs: public (everyone), key (keys for the account), or paid (callers who pay, and keys for the account)."},
		{Name: "public-cache-control", Value: optional(&n.PublicCacheControl), placeholder: "VALUE", words: "no-cache",
			only: node.Hosted, refusal: "the blobs of a local instance are not cached by others; it requires the hosted profile", Check: isCacheControl(&n.PublicCacheControl),
			Help: "Cache-Control of blobs whose writer has stated none, with reads that are public, such as 'public, max-age=300' for a CDN in front."},
		{Name: "open-to-network", Value: optional(&n.OpenToNetwork),
			only: node.Local, refusal: "the hosted profile always serves networks, and requires keys",
			Help: "Allow an address that is not loopback. Everyone who can connect to it can read and write everything."},
	})
}

func paymentSettings(c *Configuration) []Setting {
	n := &c.Node
	return payments.with([]Setting{
		{Name: "receiver", Value: optional(&n.Receiver), placeholder: "ADDRESS", words: "an address generated for this instance; required if hosted",
			required: ": the address that is paid", Check: isAccountAddress(&n.Receiver),
			Help: "Address that receives payments."},
		{Name: "chain", Value: Constant(&n.PaidOn, paychan.Localnet), placeholder: "NAME",
			Help: "Chain on which micropayments are collected: localnet, which has the asset and the module of the public client, or a private one as id=N,asset=ADDRESS,module=ADDRESS, with the addresses of the asset's metadata and of the account that deployed the module."},
		{Name: "chunkset-price", Value: Constant(&n.ChunksetPrice, strconv.Itoa(paychan.DefaultPrice)), Check: AtLeast(&n.ChunksetPrice, 1),
			Help: "Price of a chunkset in units of the asset, at least 1. Changing it does not affect chunksets already bought."},
		{Name: "unsettled-limit", Value: Constant(&n.UnsettledLimit, strconv.Itoa(paychan.DefaultUnsettledLimit)), Check: AtLeast(&n.UnsettledLimit, 1),
			Help: "Maximum amount that a channel may have accepted and not settled, in units of the asset."},
	})
}

func chainSettings(c *Configuration) []Setting {
	n := &c.Node
	return payments.with([]Setting{
		{Name: "chain-url", Value: optional(&n.ChainURLs), placeholder: "URL", words: "none; payments are recorded in the embedded ledger and not collected",
			Help: "Fullnodes of the chain on which to collect payments, such as https://node.example.org/v1, in the order in which to ask them. Plain http is accepted for loopback addresses only."},
		{Name: "chain-api-key-file", Value: optional(&n.ChainAPIKeyFile), placeholder: "FILE", tag: `type:"path"`,
			Help: "File with the API key that the fullnodes require. Its mode must be as for --receiver-key-file."},
		{Name: "receiver-key-file", Value: optional(&n.ReceiverKeyFile), placeholder: "FILE", tag: `type:"path"`,
			Help: "File with the private key of the receiver, which signs what is collected: 64 hexadecimal digits after ed25519-priv-0x or secp256k1-priv-0x. Only its owner may access it (mode 0600 or 0400), or, if that is root, the group of the server may also read it (0640 or 0440). Required with --chain-url."},
		{Name: "coin-price", Value: fixed(&n.CoinPrice, 0), placeholder: "N", words: "not known; fees are not compared",
			needsChain: true, Check: notNegative(&n.CoinPrice),
			Help: "What a coin of the chain (10^8 of its smallest coin) is worth in units of the asset. Micropayments that cost more gas than they pay are refused."},
	})
}

// locationSettings returns the rows that name the place of the metadata. Commands that work on the
// metadata have these flags, too.
func locationSettings(c *Configuration) []Setting {
	n := &c.Node
	return stored.with([]Setting{
		{Name: "data", Value: Constant(&n.Location.Data, DefaultData), Check: notEmpty(&n.Location.Data),
			Help: "Data folder, for everything that is not stored elsewhere. serve and key create create it, with mode 0700. A folder with other files is refused."},
		{Name: "meta", Value: optional(&n.Location.Meta), placeholder: "DSN", words: "a SQLite database in the data folder",
			Help: "PostgreSQL database for the metadata, such as postgres://HOST/NAME."},
	})
}

func storageSettings(c *Configuration) []Setting {
	n := &c.Node
	cacheSize, stagingSize, memoryCache := (*size)(&n.Storage.CacheSize), (*size)(&n.Storage.StagingSize), (*size)(&c.memoryCache)
	return stored.with([]Setting{
		{Name: "bytes", Value: optional(&n.Location.Bytes), placeholder: "DSN", words: "files in the data folder",
			Help: "Object store for the bytes, such as s3://BUCKET/PREFIX?endpoint=https://HOST."},
		{Name: "cache", Value: optional(&n.Storage.Cache), placeholder: "DIR", words: "no cache",
			Help: "Folder in which to cache bytes from an object store."},
		{Name: "cache-size", Value: Constant(cacheSize, "10GiB"), Check: AtLeast(cacheSize, storage.MinCacheSize),
			Help: "Maximum size of the cache."},
		{Name: "staging-size", Value: Constant(stagingSize, "1GiB"), Check: AtLeast(stagingSize, storage.MinStagingSize),
			Help: "Maximum size of the request bodies being sent to an object store, which are staged in memory (up to 64 MiB) and in the data folder; at least 32MiB."},
		{Name: "memory-cache", Value: Constant(memoryCache, "96MiB"), Check: AtLeast(memoryCache, 1<<20),
			Help: "Maximum size of the cache, in memory, of the rows of blobs, with contents up to 32 KiB; it is not used with PostgreSQL."},
		{Name: "verify-ttl", Value: Constant(&n.VerifyTTL, "10m"), Check: notNegative(&n.VerifyTTL),
			Help: "How long a block is served after its checksum was verified before it is verified again; 0 to verify each read. Fractions of a second are ignored."},
		{Name: "garbage-grace", Value: computed(&n.GarbageGrace, c.garbageGrace), placeholder: "DURATION", words: "0s; 24h with PostgreSQL",
			Help: "How long to keep the bytes of deleted blobs; unless it is 0, a download is cut after this time minus one minute."},
		{Name: "scrub-period", Value: Constant(&n.ScrubPeriod, hours(integrity.DefaultScrubPeriod)), Check: notNegative(&n.ScrubPeriod),
			Help: "Period in which everything stored is read and checked once, in the background; 0 to check only what is read."},
		{Name: "changes-keep", Value: Constant(&n.ChangesKeep, hours(blob.DefaultChangesKeep)), Check: AtLeast(&n.ChangesKeep, time.Minute),
			Help: "How long to keep the record of changes of blobs, which programs follow."},
		{Name: "actions-keep", Value: Constant(&n.ActionsKeep, "8760h"), Check: notNegative(&n.ActionsKeep),
			Help: "How long to keep the record of the actions of administrators."},
		{Name: "heal-from", Value: optional(&n.Storage.HealFrom), placeholder: "DIR|DSN", words: "nowhere",
			Help: "Place with backups, or with a copy of the objects, from which damaged bytes are repaired: a folder, or s3://… as in --bytes."},
		{Name: "ephemeral", Value: optional(&c.Ephemeral), only: node.Local,
			Help: "Keep everything in memory and in a temporary folder, and remove it when the server stops."},
		{Name: "seed", Value: optional(&n.Seed), placeholder: "DIR", only: node.Local, refusal: "requires the local profile; sluice put -r stores a folder",
			Help: "Store the files of a folder at the start: DIR/ACCOUNT/NAME becomes the blob NAME of ACCOUNT. Blobs that exist are kept."},
	})
}

func shutdownSettings(c *Configuration) []Setting {
	n := &c.Node
	return shutdown.with([]Setting{
		// The hosted default is enough for a load balancer to poll /readyz.
		{Name: "drain-wait", Value: perProfile(&n.Profile, &n.DrainWait, 0, 5*time.Second), placeholder: "DURATION", words: "0s; 5s if hosted",
			Check: notNegative(&n.DrainWait),
			Help:  "How long to keep serving after SIGTERM while /readyz reports 503, so that load balancers can notice."},
		{Name: "drain-deadline", Value: Constant(&n.DrainDeadline, "30s"), Check: isPositive(&n.DrainDeadline),
			Help: "How long running requests may take to complete after that."},
	})
}

func faultSettings(c *Configuration) []Setting {
	n := &c.Node
	return faults.with([]Setting{
		{Name: "fault", Value: optional(&n.Faults), placeholder: "RULE", tag: `sep:"none"`, Check: allPass(&n.Faults, httpapi.CheckFault),
			Help: "Make requests fail, such as 'PUT part 2%: drop-reply' or 'GET blob first 1: cut 64KiB'. It can be repeated. Faults: delay DURATION, status CODE, cut BYTES, drop-reply, slow BYTES, expired-session, full-disk."},
	})
}

func limitSettings(c *Configuration) []Setting {
	n := &c.Node
	return Limits.with([]Setting{
		{Name: "max-requests", Value: Constant(&n.MaxRequests, "4096"), Check: AtLeast(&n.MaxRequests, 1),
			Help: "Maximum number of concurrent requests of all callers. Those without a key get at most three quarters."},
		{Name: "max-connections-per-address", Value: optional((*count)(&n.MaxConnectionsPerAddress)), placeholder: "N", words: "unlimited; a quarter of all if hosted",
			Help: "Maximum number of connections of one address (IPv6: of one /64), except trusted proxies, or unlimited."},
	})
}

// callerLimitSettings returns the limits of keys and of addresses. Callers without a key have no
// quotas.
func callerLimitSettings(c *Configuration) []Setting {
	n := &c.Node
	return []Setting{
		{Name: "key-limits", Section: keyLimits, Value: newBoundLimits(&n.Profile, &c.keyLimits, KeyDefaults), placeholder: "LIMIT=N", words: limitList(KeyDefaults).words(),
			refusal: "requires the hosted profile; a local instance has no keys to limit",
			Help:    "Limits of the keys of a group, which sluice group set can change for a group: " + limitNames(func(keys.LimitKind) bool { return true }) + ". Each is a number, a size if it is one of bytes, or unlimited."},
		{Name: "address-limits", Section: Limits, Value: newBoundLimits(&n.Profile, &c.addressLimits, addressDefaults), placeholder: "LIMIT=N", words: "unlimited; " + limitList(addressDefaults).words() + " if hosted",
			Check: noQuotas(&c.addressLimits),
			Help:  "Limits of the callers without a key that share an address: " + limitNames(isRate) + "."},
	}
}

// A hosted service's limits. A local instance has none.
var (
	KeyDefaults = keys.Limits{
		RequestsPerSecond: 1000, BytesInPerSecond: 512 << 20, BytesOutPerSecond: 512 << 20, ConcurrentRequests: 1024,
	}.Or(keys.NoLimits())
	addressDefaults = keys.Limits{
		RequestsPerSecond: 100, BytesInPerSecond: 32 << 20, BytesOutPerSecond: 32 << 20, ConcurrentRequests: 64,
	}.Or(keys.NoLimits())
)

// garbageGrace returns the default of --garbage-grace.
func (c *Configuration) garbageGrace() time.Duration {
	if c.Node.Location.Shared() {
		return sharedGarbageGrace
	}
	return 0
}

func hours(d time.Duration) string { return strconv.Itoa(int(d/time.Hour)) + "h" }
