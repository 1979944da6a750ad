package main

import (
	"log/slog"
	"slices"
	"strconv"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/exchange"
	"sluice/httpapi"
	"sluice/integrity"
	"sluice/internal/logbuffer"
	"sluice/node"
	"sluice/paychan"
	"sluice/s3api"
	"sluice/storage"
)

// configuration has the variables that the settings of serve set.
type configuration struct {
	logFormat logbuffer.Format
	logLevel  slog.Level
	adminAddr string // or adminOff
	ephemeral bool

	memoryCache              int64
	keyLimits, addressLimits limitList

	node node.Config
}

// defaultData is the default of --data.
const defaultData = "./sluice-data"

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
	limits    = section{title: "Limits:"}
	keyLimits = section{title: "Limits:", only: node.Hosted}
)

// with returns rows in the section.
func (s section) with(rows []setting) []setting {
	for i := range rows {
		rows[i].section = s
	}
	return rows
}

// settingTable returns the settings of serve, in the order in which its help lists them; they set
// c. Everything else derives from these rows: flags, variables, configuration keys, config print,
// checks, docs/flags.md and completion.
func settingTable(c *configuration) []setting {
	return slices.Concat(
		generalSettings(c), logSettings(c), networkSettings(c), callerSettings(c), paymentSettings(c), chainSettings(c),
		locationSettings(c), storageSettings(c), shutdownSettings(c), faultSettings(c),
		limitSettings(c), callerLimitSettings(c),
	)
}

func generalSettings(c *configuration) []setting {
	n := &c.node
	return general.with([]setting{
		{name: "profile", value: constant(&n.Profile, "local"), choices: "local,hosted",
			help: "local: for development, without keys, on this machine only. hosted: for a network, with API keys."},
	})
}

func logSettings(c *configuration) []setting {
	n := &c.node
	return logging.with([]setting{
		{name: "log-format", value: constant(&c.logFormat, "text"), choices: "text,json",
			help: "Format of the log: text (key=value) or json (an object a line)."},
		{name: "log-level", value: constant(&c.logLevel, "info"), placeholder: "LEVEL", words: "info",
			help: "Lowest level to log: debug (includes health checks and preflight requests), info, warn or error."},
		{name: "log-requests", value: constant(&n.LogRequests, "all"), choices: "all,errors,none",
			help: "Requests to log: all, errors (with a status from 400 on, or a response that was cut) or none, not even those with 500."},
	})
}

func networkSettings(c *configuration) []setting {
	n := &c.node
	return network.with([]setting{
		{name: "addr", value: constant(&n.Addr, "localhost:9090"), check: isListenAddress(&n.Addr),
			help: "Address to listen on. Host localhost means both loopback addresses, port 0 any free port."},
		{name: "s3-addr", value: optional(&n.S3Addr), placeholder: "HOST:PORT", words: "localhost:9000 if local and that port is free, or else off",
			check: isS3Address(&n.S3Addr),
			help:  "Address for S3's interface to the same blobs, or off."},
		{name: "s3-domain", value: optional(&n.S3Domains), placeholder: "DOMAIN", check: each(&n.S3Domains, s3api.CheckDomain),
			help: "Domains below which each bucket is a host, as in BUCKET.DOMAIN, in addition to the path style. Other host names are then refused if hosted; a local instance has localhost in addition."},
		{name: "s3-unsigned-payload", value: optional(&n.S3Unsigned), only: node.Hosted, refusal: "a local instance accepts any S3 credentials",
			help: "Accept bodies that no signature covers from everywhere, and not only over TLS and from this machine."},
		{name: "s3-encrypted", value: optional(&n.S3Encrypted),
			help: "Declare that the disk, the database and the bucket encrypt all bytes that they store: S3's clients may then ask for AES256, and responses report it."},
		{name: "s3-secret-key-file", value: optional(&n.S3SecretKeys), placeholder: "FILE", tag: `type:"path"`, only: node.Hosted, refusal: "a local instance accepts any S3 credentials",
			help: "File with the keys that seal the S3 secrets of API keys, 64 hexadecimal digits a line, the one that seals first. Only its owner may access it (mode 0600 or 0400)."},
		{name: "admin-addr", value: perProfile(&n.Profile, &c.adminAddr, adminOff, "localhost:9091"), placeholder: "HOST:PORT", words: "off; localhost:9091 if hosted",
			check: isAdminAddress(&c.adminAddr),
			help:  "Address for metrics and profiles, or off."},
		{name: "tls-cert", value: optional(&n.TLSCert), placeholder: "FILE",
			help: "Certificate chain in PEM with which to serve TLS. It is reloaded when the file changes, and on SIGHUP."},
		{name: "tls-key", value: optional(&n.TLSKey), placeholder: "FILE",
			help: "Private key of the certificate, in PEM."},
		{name: "console", value: perProfile(&n.Profile, &n.Console, true, false), tag: `negatable:""`, words: "on if local, off if hosted",
			help: "Serve the web console at /console/, and lead browsers there from / if local."},
		{name: "base-path", value: optional(&n.BasePath), placeholder: "/NAME", words: "the root; required if hosted",
			required: ", such as /sluice", check: passes(&n.BasePath, httpapi.CheckBasePath),
			help: "Path under which to serve."},
		{name: "external-url", value: optional(&n.ExternalURL), placeholder: "URL",
			required: ", such as https://blobs.example.org/sluice",
			help:     "Base URL by which clients reach the service, including the base path. Required if hosted."},
		{name: "trusted-proxies", value: optional(&n.TrustedProxies), placeholder: "CIDR", check: each(&n.TrustedProxies, node.CheckProxy),
			help: "Proxies that may set the address of a client in X-Forwarded-For."},
		{name: "allowed-hosts", value: optional(&n.AllowedHosts), placeholder: "HOST", check: each(&n.AllowedHosts, exchange.CheckAllowedHost),
			only: node.Local, refusal: "the hosted profile accepts every host name",
			help: "Additional host names to accept in requests."},
		{name: "cors-origins", value: optional(&n.CORSOrigins), placeholder: "ORIGIN", check: each(&n.CORSOrigins, exchange.CheckOrigin),
			only: node.Local, refusal: "the hosted profile accepts every origin, because browsers never send keys on their own",
			help: "Additional origins whose pages may use the service."},
	})
}

func callerSettings(c *configuration) []setting {
	n := &c.node
	return callers.with([]setting{
		{name: "reads", value: perProfile(&n.Profile, &n.Reads, access.ReadsPublic, ""), placeholder: "WHO", words: "public; required if hosted",
			required: ": public, key or paid",
			help:     "Who may read blobs: public (everyone), key (keys for the account), or paid (callers who pay, and keys for the account)."},
		{name: "public-cache-control", value: optional(&n.PublicCacheControl), placeholder: "VALUE", words: "no-cache",
			only: node.Hosted, refusal: "the blobs of a local instance are not cached by others; it requires the hosted profile", check: isCacheControl(&n.PublicCacheControl),
			help: "Cache-Control of blobs whose writer has stated none, with reads that are public, such as 'public, max-age=300' for a CDN in front."},
		{name: "open-to-network", value: optional(&n.OpenToNetwork),
			only: node.Local, refusal: "the hosted profile always serves networks, and requires keys",
			help: "Allow an address that is not loopback. Everyone who can connect to it can read and write everything."},
	})
}

func paymentSettings(c *configuration) []setting {
	n := &c.node
	return payments.with([]setting{
		{name: "receiver", value: optional(&n.Receiver), placeholder: "ADDRESS", words: "an address generated for this instance; required if hosted",
			required: ": the address that is paid", check: isAccountAddress(&n.Receiver),
			help: "Address that receives payments."},
		{name: "chain", value: constant(&n.PaidOn, paychan.Localnet), placeholder: "NAME",
			help: "Chain on which micropayments are collected: localnet, which has the asset and the module of the public client, or a private one as id=N,asset=ADDRESS,module=ADDRESS, with the addresses of the asset's metadata and of the account that deployed the module."},
		{name: "chunkset-price", value: constant(&n.ChunksetPrice, strconv.Itoa(paychan.DefaultPrice)), check: atLeast(&n.ChunksetPrice, 1),
			help: "Price of a chunkset in units of the asset, at least 1. Changing it does not affect chunksets already bought."},
		{name: "unsettled-limit", value: constant(&n.UnsettledLimit, strconv.Itoa(paychan.DefaultUnsettledLimit)), check: atLeast(&n.UnsettledLimit, 1),
			help: "Maximum amount that a channel may have accepted and not settled, in units of the asset."},
	})
}

func chainSettings(c *configuration) []setting {
	n := &c.node
	return payments.with([]setting{
		{name: "chain-url", value: optional(&n.ChainURLs), placeholder: "URL", words: "none; payments are recorded in the embedded ledger and not collected",
			help: "Fullnodes of the chain on which to collect payments, such as https://node.example.org/v1, in the order in which to ask them. Plain http is accepted for loopback addresses only."},
		{name: "chain-api-key-file", value: optional(&n.ChainAPIKeyFile), placeholder: "FILE", tag: `type:"path"`,
			help: "File with the API key that the fullnodes require, which only its owner may access."},
		{name: "receiver-key-file", value: optional(&n.ReceiverKeyFile), placeholder: "FILE", tag: `type:"path"`,
			help: "File with the private key of the receiver, which signs what is collected: 64 hexadecimal digits after ed25519-priv-0x or secp256k1-priv-0x. Only its owner may access it (mode 0600 or 0400). Required with --chain-url."},
		{name: "coin-price", value: fixed(&n.CoinPrice, 0), placeholder: "N", words: "not known; fees are not compared",
			needsChain: true, check: notNegative(&n.CoinPrice),
			help: "What a coin of the chain (10^8 of its smallest coin) is worth in units of the asset. Micropayments that cost more gas than they pay are refused."},
	})
}

// locationSettings returns the rows that name the place of the metadata. Commands that work on the
// metadata have these flags, too.
func locationSettings(c *configuration) []setting {
	n := &c.node
	return stored.with([]setting{
		{name: "data", value: constant(&n.Location.Data, defaultData), check: notEmpty(&n.Location.Data),
			help: "Data folder, for everything that is not stored elsewhere. serve and key create create it, with mode 0700. A folder with other files is refused."},
		{name: "meta", value: optional(&n.Location.Meta), placeholder: "DSN", words: "a SQLite database in the data folder",
			help: "PostgreSQL database for the metadata, such as postgres://HOST/NAME."},
	})
}

func storageSettings(c *configuration) []setting {
	n := &c.node
	cacheSize, stagingSize, memoryCache := (*size)(&n.Storage.CacheSize), (*size)(&n.Storage.StagingSize), (*size)(&c.memoryCache)
	return stored.with([]setting{
		{name: "bytes", value: optional(&n.Location.Bytes), placeholder: "DSN", words: "files in the data folder",
			help: "Object store for the bytes, such as s3://BUCKET/PREFIX?endpoint=https://HOST."},
		{name: "cache", value: optional(&n.Storage.Cache), placeholder: "DIR", words: "no cache",
			help: "Folder in which to cache bytes from an object store."},
		{name: "cache-size", value: constant(cacheSize, "10GiB"), check: atLeast(cacheSize, storage.MinCacheSize),
			help: "Maximum size of the cache."},
		{name: "staging-size", value: constant(stagingSize, "1GiB"), check: atLeast(stagingSize, storage.MinStagingSize),
			help: "Maximum size of the request bodies being sent to an object store, which are staged in memory (up to 64 MiB) and in the data folder; at least 32MiB."},
		{name: "memory-cache", value: constant(memoryCache, "96MiB"), check: atLeast(memoryCache, 1<<20),
			help: "Maximum size of the caches, in memory, of what is read often: two thirds for the rows of blobs with contents up to 16 KiB, which are not used with PostgreSQL, and a third for objects up to 32 KiB."},
		{name: "verify-ttl", value: constant(&n.VerifyTTL, "10m"), check: notNegative(&n.VerifyTTL),
			help: "How long a block is served after its checksum was verified before it is verified again; 0 to verify each read. Fractions of a second are ignored."},
		{name: "garbage-grace", value: computed(&n.GarbageGrace, c.garbageGrace), placeholder: "DURATION", words: "0s; 24h with PostgreSQL",
			help: "How long to keep the bytes of deleted blobs; unless it is 0, a download is cut after this time minus one minute."},
		{name: "scrub-period", value: constant(&n.ScrubPeriod, hours(integrity.DefaultScrubPeriod)), check: notNegative(&n.ScrubPeriod),
			help: "Period in which everything stored is read and checked once, in the background; 0 to check only what is read."},
		{name: "heal-from", value: optional(&n.Storage.HealFrom), placeholder: "DIR|DSN", words: "nowhere",
			help: "Place with backups, or with a copy of the objects, from which damaged bytes are repaired: a folder, or s3://… as in --bytes."},
		{name: "ephemeral", value: optional(&c.ephemeral), only: node.Local,
			help: "Keep everything in memory and in a temporary folder, and remove it when the server stops."},
		{name: "seed", value: optional(&n.Seed), placeholder: "DIR", only: node.Local, refusal: "requires the local profile; sluice put -r stores a folder",
			help: "Store the files of a folder at the start: DIR/ACCOUNT/NAME becomes the blob NAME of ACCOUNT. Blobs that exist are kept."},
	})
}

func shutdownSettings(c *configuration) []setting {
	n := &c.node
	return shutdown.with([]setting{
		// The hosted default is enough for a load balancer to poll /readyz.
		{name: "drain-wait", value: perProfile(&n.Profile, &n.DrainWait, 0, 5*time.Second), placeholder: "DURATION", words: "0s; 5s if hosted",
			check: notNegative(&n.DrainWait),
			help:  "How long to keep serving after SIGTERM while /readyz reports 503, so that load balancers can notice."},
		{name: "drain-deadline", value: constant(&n.DrainDeadline, "30s"), check: isPositive(&n.DrainDeadline),
			help: "How long running requests may take to complete after that."},
	})
}

func faultSettings(c *configuration) []setting {
	n := &c.node
	return faults.with([]setting{
		{name: "fault", value: optional(&n.Faults), placeholder: "RULE", tag: `sep:"none"`, check: allPass(&n.Faults, httpapi.CheckFault),
			help: "Make requests fail, such as 'PUT part 2%: drop-reply' or 'GET blob first 1: cut 64KiB'. It can be repeated. Faults: delay DURATION, status CODE, cut BYTES, drop-reply, slow BYTES, expired-session, full-disk."},
	})
}

func limitSettings(c *configuration) []setting {
	n := &c.node
	return limits.with([]setting{
		{name: "max-requests", value: constant(&n.MaxRequests, "4096"), check: atLeast(&n.MaxRequests, 1),
			help: "Maximum number of concurrent requests of all callers. Those without a key get at most three quarters."},
		{name: "max-connections", value: optional(&n.MaxConnections), placeholder: "N", words: "what the limit of open files allows, at most " + strconv.Itoa(node.MaxDefaultConnections),
			check: notNegative(&n.MaxConnections),
			help:  "Maximum number of connections."},
		{name: "max-connections-per-address", value: optional((*count)(&n.MaxConnectionsPerAddress)), placeholder: "N", words: "unlimited; a quarter of all if hosted",
			help: "Maximum number of connections of one address (IPv6: of one /64), except trusted proxies, or unlimited."},
	})
}

// callerLimitSettings returns the limits of keys and of addresses. Callers without a key have no
// quotas.
func callerLimitSettings(c *configuration) []setting {
	n := &c.node
	return []setting{
		{name: "key-limits", section: keyLimits, value: newBoundLimits(&n.Profile, &c.keyLimits, keyDefaults), placeholder: "LIMIT=N", words: limitList(keyDefaults).words(),
			refusal: "requires the hosted profile; a local instance has no keys to limit",
			help:    "Limits of the keys of a group, which sluice group set can change for a group: " + limitNames(func(keys.LimitKind) bool { return true }) + ". Each is a number, a size if it is one of bytes, or unlimited."},
		{name: "address-limits", section: limits, value: newBoundLimits(&n.Profile, &c.addressLimits, addressDefaults), placeholder: "LIMIT=N", words: "unlimited; " + limitList(addressDefaults).words() + " if hosted",
			check: noQuotas(&c.addressLimits),
			help:  "Limits of the callers without a key that share an address: " + limitNames(isRate) + "."},
	}
}

// A hosted service's limits. A local instance has none.
var (
	keyDefaults = keys.Limits{
		RequestsPerSecond: 1000, BytesInPerSecond: 512 << 20, BytesOutPerSecond: 512 << 20, ConcurrentRequests: 1024,
	}.Or(keys.NoLimits())
	addressDefaults = keys.Limits{
		RequestsPerSecond: 100, BytesInPerSecond: 32 << 20, BytesOutPerSecond: 32 << 20, ConcurrentRequests: 64,
	}.Or(keys.NoLimits())
)

// garbageGrace returns the default of --garbage-grace.
func (c *configuration) garbageGrace() time.Duration {
	if c.node.Location.Shared() {
		return sharedGarbageGrace
	}
	return 0
}

func hours(d time.Duration) string { return strconv.Itoa(int(d/time.Hour)) + "h" }
