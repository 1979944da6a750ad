package node

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/chain"
	"sluice/exchange"
	"sluice/paychan"
	"sluice/storage"
)

// Profile is the purpose for which a node runs.
type Profile string

// The profiles.
const (
	Local  Profile = "local"  // development: this machine only, without keys
	Hosted Profile = "hosted" // a service on a network: callers have keys
)

// Config is a node's configuration. A field without a comment on its default must be set. In
// errors, a field is named by the flag that sets it.
type Config struct {
	Version     string
	Profile     Profile
	LogRequests exchange.LoggedRequests // "" for all
	LogPaths    bool                    // the log of requests is for a developer, see exchange.Config
	// AuditLog is the file, or auditlog.Stdout, for a line about each change of a blob. After
	// auditReads it has reads, too. "" for none.
	AuditLog string

	Network
	Callers
	Payments
	Chain
	Stores
	Shutdown
	Development
	Limits
	Tuning
}

// Network states where the node listens, and for whom.
type Network struct {
	Addr           string   // host:port; host localhost means both loopback addresses, port 0 any
	AdminAddr      string   // host:port for metrics and profiles; "" for none
	AdminAPI       AdminAPI // where administrators are served
	TLSCert        string   // PEM file with the certificate chain; "" for no TLS
	TLSKey         string   // PEM file with the private key
	Console        bool     // the web console is served
	S3Addr         string   // host:port for S3; "" for the profile's default, or S3Off
	S3Domains      []string // below which buckets are hosts
	S3Encrypted    bool     // the stores encrypt all bytes at rest
	S3Unsigned     bool     // bodies that no signature covers are accepted over plain HTTP
	S3SecretKeys   string   // file with the master keys of S3 secrets; "" for none
	BasePath       string   // "" for the root
	ExternalURL    string   // base URL for clients; "" for the request's URL
	TrustedProxies []string
	// WebhookNetworks are networks to which webhooks are delivered in addition to public addresses.
	WebhookNetworks []string
	AllowedHosts    []string
	CORSOrigins     []string
	OpenToNetwork   bool
}

// AdminAPI is where the operations for administrators are served.
type AdminAPI string

// The places of AdminAPI.
const (
	AdminOff    AdminAPI = "off"    // nowhere
	AdminPublic AdminAPI = "public" // below the base path, with all other operations
	AdminApart  AdminAPI = "admin"  // below the base path on AdminAddr
)

// Callers states who may read.
type Callers struct {
	Reads              access.Reads
	PublicCacheControl string // Cache-Control of blobs that have none, with public reads; "" for no-cache
}

// Payments has the terms of paid reads.
type Payments struct {
	Receiver       string // "" for an address that is generated at the first start
	PaidOn         paychan.Chain
	ChunksetPrice  int64
	UnsettledLimit int64
}

// Chain states how payments are collected on a chain. Without ChainURLs the node books settlements
// in its ledger, and nothing else is used.
type Chain struct {
	ChainURLs       []string // fullnodes, in the order in which they are asked
	ChainAPIKeyFile string   // "" for none
	ReceiverKeyFile string
	CoinPrice       int64             // units of the asset for 10^8 of the smallest coin; 0: not known
	chainTransport  http.RoundTripper // nil, or the transport of tests
}

// Stores states where the instance is, and how its background tasks work on it.
type Stores struct {
	Location     storage.Location
	Storage      storage.Options
	VerifyTTL    time.Duration
	GarbageGrace time.Duration
	ScrubPeriod  time.Duration // 0: no scrub
	ChangesKeep  time.Duration // for how long changes of blobs are kept
	ActionsKeep  time.Duration // for how long administrators' actions are kept
}

// Shutdown states how the node drains.
type Shutdown struct {
	DrainWait     time.Duration
	DrainDeadline time.Duration
}

// Development has the settings that only the local profile has.
type Development struct {
	Seed   string   // folder with files to store at the start; "" for none
	Faults []string // rules of httpapi.CheckFault
}

// Limits bound callers' use.
type Limits struct {
	MaxRequests              int
	MaxConnectionsPerAddress int64 // 0 for the profile's default, or keys.Unlimited
	KeyLimits                keys.Limits
	AddressLimits            keys.Limits
}

// tuning returns the values that no setting sets.
func (c *Config) tuning() Tuning {
	return chosen(c.Tuning).withDefaults(c.UnsettledLimit, c.ChunksetPrice)
}

// faucet reports whether the node opens channels for everyone: payments are required, and worth
// nothing.
func (c *Config) faucet() bool {
	return c.Profile == Local && c.Reads == access.ReadsPaid && len(c.ChainURLs) == 0
}

// minGrace is the minimum of GarbageGrace with several nodes. A download is cut
// after GarbageGrace minus one minute, so it leaves usual downloads enough time.
const minGrace = 10 * time.Minute

// Validate reports every rule between settings that is broken, and that can be found without I/O.
// Each setting by itself is valid.
func (c *Config) Validate() error {
	return errors.Join(c.validateNetwork(), c.validateStores(), c.validateChain(), c.validateReads())
}

// CheckListenAddress reports whether an address to listen on has the form HOST:PORT.
func CheckListenAddress(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return errors.New("want HOST:PORT, such as localhost:9090")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("the port must be a number from 0 to 65535, not %q", port)
	}
	return nil
}

func (c *Config) validateNetwork() error {
	var errs []error
	host, _, err := net.SplitHostPort(c.Addr)
	if err == nil && c.Profile == Local && !c.OpenToNetwork && !exchange.IsLoopback(host) {
		errs = append(errs, fmt.Errorf("--addr %s: a local instance requires no keys, so it listens on loopback addresses only, unless --open-to-network is set", c.Addr))
	}
	errs = append(errs, c.validateS3())
	if c.ExternalURL != "" {
		errs = append(errs, validateExternalURL(c.ExternalURL, c.BasePath))
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		errs = append(errs, errors.New("--tls-cert and --tls-key: either requires the other"))
	}
	if c.AdminAPI == AdminApart && c.AdminAddr == "" {
		errs = append(errs, errors.New("--admin-api admin: it requires --admin-addr"))
	}
	if c.AuditLog == auditReads {
		errs = append(errs, errors.New("--audit-log "+auditReads+": a file must follow, or - for standard output"))
	}
	return errors.Join(errs...)
}

// auditReads begins an audit log's setting if the log has reads, too.
const auditReads = "reads:"

// S3Off is the Config.S3Addr of a node without an S3 address.
const S3Off = "off"

// defaultS3Addr is where a local instance serves S3 if that port is free.
const defaultS3Addr = "localhost:9000"

func (c *Config) validateS3() error {
	switch {
	case c.S3Addr == "" && c.Profile == Local, c.S3Addr == S3Off:
		return nil
	case c.S3Addr == "":
		if len(c.S3Domains) > 0 {
			return errors.New("--s3-domain: requires --s3-addr")
		}
		return nil
	}
	host, port, err := net.SplitHostPort(c.S3Addr)
	_, native, nativeErr := net.SplitHostPort(c.Addr)
	switch {
	case err != nil || nativeErr != nil:
		return nil // an error of its own
	case port == native && port != "0":
		return fmt.Errorf("--s3-addr %s: must have another port than --addr %s", c.S3Addr, c.Addr)
	case c.Profile == Local && !c.OpenToNetwork && !exchange.IsLoopback(host):
		return fmt.Errorf("--s3-addr %s: a local instance requires no keys, so it listens on loopback addresses only, unless --open-to-network is set", c.S3Addr)
	}
	return nil
}

// validateExternalURL requires a URL to which an operation's path can be appended.
func validateExternalURL(address, basePath string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil:
		return fmt.Errorf("--external-url %s: want http or https, a host and the base path, such as https://blobs.example.org/sluice", address)
	case strings.ContainsAny(address, "?#"):
		return fmt.Errorf("--external-url %s: must have neither a query nor a fragment", address)
	case strings.HasSuffix(u.Path, "/") || !strings.HasSuffix(u.Path, basePath):
		return fmt.Errorf("--external-url %s: its path must end in the base path, %q", address, basePath)
	}
	return nil
}

// CheckProxy reports whether text is a network of proxies, or of webhooks' receivers.
func CheckProxy(text string) error {
	_, err := parseProxy(text)
	return err
}

// parseProxy returns a network. An address without a length is a network of one address.
func parseProxy(text string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(text)
	if addr, e := netip.ParseAddr(text); e == nil {
		network, err = addr.Prefix(addr.BitLen())
	}
	if err != nil || network.Addr().Is4In6() {
		return netip.Prefix{}, errors.New("want a network or an address, such as 10.0.0.0/8")
	}
	return network.Masked(), nil
}

// parseProxies returns a flag's networks.
func parseProxies(flag string, list []string) (networks []netip.Prefix, err error) {
	for _, text := range list {
		network, err := parseProxy(text)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", flag, text, err)
		}
		networks = append(networks, network)
	}
	return networks, nil
}

func (c *Config) validateStores() error {
	errs := []error{c.Location.Validate("--"), c.Location.ValidateHealFrom(c.Storage.HealFrom)}
	if c.Storage.Cache != "" && !c.Location.Remote() {
		errs = append(errs, errors.New("--cache: requires an object store in --bytes; files in the data folder need no cache"))
	}
	if c.GarbageGrace < minGrace && (c.GarbageGrace != 0 || c.Location.Shared()) {
		errs = append(errs, fmt.Errorf("--garbage-grace %s: must be at least %s, or 0s for a single node", c.GarbageGrace, minGrace))
	}
	return errors.Join(errs...)
}

// validateChain reports chain settings that do not fit together. Its errors do not repeat
// URLs, which may contain secrets.
func (c *Config) validateChain() error {
	if len(c.ChainURLs) == 0 {
		if c.ReceiverKeyFile != "" || c.ChainAPIKeyFile != "" {
			return errors.New("--receiver-key-file and --chain-api-key-file: require --chain-url; without a chain nothing is signed")
		}
		return nil
	}
	var errs []error
	for i, url := range c.ChainURLs {
		if err := chain.CheckURL(url); err != nil {
			errs = append(errs, fmt.Errorf("--chain-url: URL %d of %d: %w", i+1, len(c.ChainURLs), err))
		}
	}
	if c.ReceiverKeyFile == "" {
		errs = append(errs, errors.New("--chain-url: requires --receiver-key-file, the key of the account that is paid"))
	}
	return errors.Join(errs...)
}

// validateReads reports a way of reading that the profile does not have, and a Cache-Control that
// would have no effect, because only blobs that everybody may read have it.
func (c *Config) validateReads() error {
	switch {
	case c.Profile == Local && c.Reads == access.ReadsKey:
		return errors.New("--reads key: a local instance requires no keys; want public or paid")
	case c.Profile == Local && c.Reads != access.ReadsPublic && c.Reads != access.ReadsPaid:
		return fmt.Errorf("--reads %s: want public or paid", c.Reads)
	case c.Profile == Local, c.Reads == "": // an error of its own
		return nil
	case c.Reads != access.ReadsPublic && c.Reads != access.ReadsKey && c.Reads != access.ReadsPaid:
		return fmt.Errorf("--reads %s: want public, key or paid", c.Reads)
	}
	return nil
}
